package main

import (
	"encoding/binary"
	"fmt"
)

// Message sent or received.
type message struct {
	stream    uint16
	ppid      uint32
	unordered bool
	data      []byte
}

// Content of a message: "Messages" in interop/README.md.
func content(stream uint16, index uint32, size int) []byte {
	data := make([]byte, size)
	start := int(index) + 29*int(stream)
	for at := range data {
		data[at] = byte(start + at)
	}
	if size >= 8 {
		binary.BigEndian.PutUint32(data, index)
		binary.BigEndian.PutUint32(data[4:], uint32(size))
	}
	return data
}

// Index that the content has: in its header, or modulo 256 without one.
func indexOf(stream uint16, data []byte) uint32 {
	if len(data) >= 8 {
		return binary.BigEndian.Uint32(data)
	}
	return uint32(data[0] - byte(29*int(stream)))
}

func (o *testOptions) isUnordered(n int) bool {
	return o.unordered > 0 && n%o.unordered == o.unordered-1
}

// Size of message n, before the last is cut.
func (o *testOptions) size(n int) int {
	if o.sizes != nil {
		return o.sizes[n%len(o.sizes)]
	}
	z := o.seed + uint64(n+1)*0x9E3779B97F4A7C15
	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
	z = (z ^ (z >> 27)) * 0x94D049BB133111EB
	z ^= z >> 31
	return o.low + int(z%uint64(o.high-o.low+1))
}

// Message n of a source that has this number of bytes left.
func (o *testOptions) message(n, left int) *message {
	stream, index := uint16(n%o.streams), uint32(n/o.streams)
	sent := &message{stream: stream, ppid: index, unordered: o.isUnordered(n)}
	if o.ppid >= 0 {
		sent.ppid = uint32(o.ppid)
	}
	sent.data = content(stream, index, min(o.size(n), left))
	return sent
}

type streamCheck struct {
	next    uint32
	ahead   map[uint32]bool
	last    int64
	seen    bool
	highest uint32
}

// Checks received messages: content, no duplicates, order per stream.
type messageCheck struct {
	streams map[uint16]*streamCheck
	errors  int
}

func (c *messageCheck) fail(format string, values ...any) {
	c.errors++
	if c.errors <= 20 {
		emit("error", map[string]any{"message": fmt.Sprintf(format, values...)})
	}
}

func (c *messageCheck) message(received *message, index uint32) {
	stream := c.streams[received.stream]
	if stream == nil {
		stream = &streamCheck{ahead: map[uint32]bool{}, last: -1}
		c.streams[received.stream] = stream
	}
	expected := content(received.stream, index, len(received.data))
	if string(expected) != string(received.data) {
		c.fail("stream %d, index %d, %d bytes: wrong content", received.stream, index, len(received.data))
	}
	if index < stream.next || stream.ahead[index] {
		c.fail("stream %d, index %d: delivered twice", received.stream, index)
	}
	stream.ahead[index] = true
	for stream.ahead[stream.next] {
		delete(stream.ahead, stream.next)
		stream.next++
	}
	stream.highest, stream.seen = max(stream.highest, index), true
	if !received.unordered {
		if int64(index) <= stream.last {
			c.fail("stream %d, index %d: out of order after index %d", received.stream, index, stream.last)
		}
		stream.last = max(stream.last, int64(index))
	}
}

// Checks after a SHUTDOWN that no index is missing.
func (c *messageCheck) complete() {
	for id, stream := range c.streams {
		if stream.seen && stream.next <= stream.highest {
			c.fail("stream %d: index %d never arrived, %d did", id, stream.next, stream.highest)
		}
	}
}
