package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/pion/logging"
	"github.com/pion/sctp"
)

const (
	// Exit status for a deficiency of the host, and for an option that the stack does not support.
	statusEnvironment = 3
	statusUnsupported = 4
	maxTestMessage    = 1 << 20
)

var started = time.Now()

// Prints one line: the event, the time, and these fields.
func emit(event string, fields map[string]any) {
	line := map[string]any{"event": event, "ms": time.Since(started).Milliseconds()}
	for name, value := range fields {
		line[name] = value
	}
	text, err := json.Marshal(line)
	if err == nil {
		fmt.Println(string(text))
	}
}

// Event of the association.
type event struct {
	received *message
	opened   *sctp.Stream
	// Stream that ended, and whether by a reset.
	ended *sctp.Stream
	reset bool
	up    *sctp.Association
	err   error
	down  bool
}

type total struct {
	Messages int `json:"messages"`
	Bytes    int `json:"bytes"`
}

// One association, from its set-up to its end.
type session struct {
	o           *testOptions
	conn        *watchedConn
	association *sctp.Association
	events      chan event
	streams     map[uint16]*sctp.Stream
	closing     map[*sctp.Stream]bool
	check       messageCheck
	queue       []*message
	sent, got   total
	unordered   int
	number      int
	upSince     time.Time
	progressDue int
	allSent     bool
	resetting   bool
	resetDone   bool
	ending      bool
}

func runTest(words []string) int {
	o, err := parseTest(words)
	if err != nil {
		fmt.Fprintln(os.Stderr, "pion:", err)
		if errors.Is(err, errUnsupported) {
			return statusUnsupported
		}
		return 2
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	socket, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(o.local))
	if err != nil {
		fmt.Fprintln(os.Stderr, "pion:", err, "- check the addresses and UDP ports of this host")
		return statusEnvironment
	}
	// The system may limit the size.
	_ = socket.SetReadBuffer(receiveBuffer)
	emit("ready", map[string]any{"stack": "pion", "port": 5000})
	s := &session{
		o: o, events: make(chan event, 1024), streams: map[uint16]*sctp.Stream{}, closing: map[*sctp.Stream]bool{},
		check: messageCheck{streams: map[uint16]*streamCheck{}}, progressDue: o.step, resetDone: o.resetAt < 0,
	}
	go s.setUp(socket)
	ended, by := s.run(stop)
	ok := s.report(ended, by)
	select {
	case <-stop:
	case <-time.After(o.linger):
	}
	if ok {
		return 0
	}
	return 1
}

// Sets the association up, and accepts streams until its end.
func (s *session) setUp(socket *net.UDPConn) {
	conn, err := openConn(s.o, socket)
	if err != nil {
		s.events <- event{err: err}
		return
	}
	s.conn = conn
	size := uint32(mtu)
	if s.o.overDTLS {
		size -= dtlsOverhead
	}
	options := sctp.Config{
		NetConn: conn, MaxReceiveBufferSize: receiveBuffer, MaxMessageSize: maxTestMessage, MTU: size,
		LoggerFactory: logging.NewDefaultLoggerFactory(), EnableZeroChecksum: s.o.offers("zero-checksum"),
	}
	interleaving := sctp.WithEnableInterleaving(s.o.offers("interleaving"))
	var association *sctp.Association
	if s.o.listens {
		association, err = sctp.ServerWithOptions(options, interleaving)
	} else {
		association, err = sctp.ClientWithOptions(options, interleaving)
	}
	if err != nil {
		s.events <- event{err: err}
		return
	}
	s.events <- event{up: association}
	for {
		stream, err := association.AcceptStream()
		if err != nil {
			s.events <- event{down: true}
			return
		}
		s.events <- event{opened: stream}
	}
}

func (s *session) add(stream *sctp.Stream) {
	id := stream.StreamIdentifier()
	if s.streams[id] == stream {
		return
	}
	s.streams[id] = stream
	go func() {
		buffer := make([]byte, maxTestMessage)
		for {
			n, ppid, err := stream.ReadSCTP(buffer)
			if err != nil {
				s.events <- event{ended: stream, reset: errors.Is(err, io.EOF)}
				return
			}
			data := append([]byte(nil), buffer[:n]...)
			s.events <- event{received: &message{stream: id, ppid: uint32(ppid), data: data}}
		}
	}()
}

// Carries messages until the end of the association: how, and by which side.
func (s *session) run(stop chan os.Signal) (string, string) {
	limit := time.After(s.o.limit - time.Since(started))
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return "failed", "self"
		case <-limit:
			return "timeout", "self"
		case next := <-s.events:
			if next.err != nil {
				fmt.Fprintln(os.Stderr, "pion:", next.err)
				return "refused", "self"
			}
			if next.down {
				return s.ended()
			}
			s.handle(next)
		case <-tick.C:
		}
		if s.association != nil && s.work() {
			return "abort", "self"
		}
	}
}

func (s *session) ended() (string, string) {
	// Messages that the readers of the streams still have.
	for {
		select {
		case next := <-s.events:
			s.handle(next)
			continue
		case <-time.After(50 * time.Millisecond):
		}
		break
	}
	switch {
	case s.conn.aborted.Load():
		return "abort", "peer"
	case s.ending:
		return "shutdown", "self"
	}
	return "shutdown", "peer"
}

func (s *session) handle(next event) {
	switch {
	case next.up != nil:
		s.association, s.upSince = next.up, time.Now()
		emit("up", map[string]any{"streams_in": 65535, "streams_out": 65535, "peer": []string{s.peer()}})
	case next.opened != nil:
		s.add(next.opened)
	case next.ended != nil:
		id := next.ended.StreamIdentifier()
		if s.streams[id] == next.ended {
			delete(s.streams, id)
		}
		if next.reset {
			emit("streams-reset", map[string]any{"direction": "incoming", "success": true})
		}
	case next.received != nil:
		s.receive(next.received)
	}
}

func (s *session) peer() string {
	host, _, _ := net.SplitHostPort(s.conn.RemoteAddr().String())
	return host
}

func (s *session) receive(received *message) {
	s.got.Messages++
	s.got.Bytes += len(received.data)
	index := received.ppid
	if s.o.ppid >= 0 {
		index = indexOf(received.stream, received.data)
	}
	// The stack does not report the U bit: it follows from the number of the message.
	received.unordered = s.o.isUnordered(int(index)*s.o.streams + int(received.stream))
	if received.unordered {
		s.unordered++
	}
	if s.o.mode == "echo" {
		s.queue = append(s.queue, received)
	} else {
		s.check.message(received, index)
	}
	if s.o.step > 0 && s.got.Bytes >= s.progressDue {
		s.progressDue = s.got.Bytes - s.got.Bytes%s.o.step + s.o.step
		emit("progress", map[string]any{"received": s.got.Bytes, "sent": s.sent.Bytes})
	}
}

// Performs the operation, sends messages, and ends the association when all is done; true after an ABORT.
func (s *session) work() bool {
	isDue := !s.resetDone && s.sent.Bytes+s.got.Bytes >= s.o.resetAt
	if isDue {
		s.reset()
	} else if !s.ending {
		s.send()
	}
	passive := s.o.mode != "source" && s.o.expect == 0
	done := s.resetDone && len(s.queue) == 0 && s.got.Bytes >= s.o.expect && (s.o.mode != "source" || s.allSent)
	if s.ending || !done || passive || s.o.end == "wait" {
		return false
	}
	s.ending = true
	if s.o.end == "abort" {
		s.association.Abort("done")
		return true
	}
	go func() {
		if err := s.association.Shutdown(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "pion:", err)
		}
	}()
	return false
}

// Closes all streams once their data is acknowledged; a stream can be opened again when its other direction was reset, too.
func (s *session) reset() {
	if !s.resetting {
		for _, stream := range s.streams {
			if stream.BufferedAmount() > 0 {
				return
			}
		}
		s.resetting = true
		for _, stream := range s.streams {
			s.closing[stream] = true
			if err := stream.Close(); err != nil {
				s.check.fail("closing a stream: %v", err)
			}
		}
	}
	for stream := range s.closing {
		if s.streams[stream.StreamIdentifier()] == stream {
			return
		}
	}
	s.resetDone = true
	emit("streams-reset", map[string]any{"direction": "outgoing", "success": true})
	emit("did", map[string]any{"operation": "reset-out", "result": "asked"})
}

func (s *session) send() {
	for range 64 {
		held := s.o.hold > 0 && s.sent.Bytes >= s.o.hold
		due := !s.resetDone && s.o.mode == "source" && s.sent.Bytes+s.got.Bytes >= s.o.resetAt
		early := s.o.rate > 0 && time.Since(s.upSince).Seconds() < float64(s.sent.Bytes)/float64(s.o.rate)
		if held || due || early {
			return
		}
		if len(s.queue) == 0 && s.o.mode == "source" {
			if left := s.o.bytes - s.sent.Bytes; left > 0 {
				s.queue = append(s.queue, s.o.message(s.number, left))
				s.number++
			} else if !s.allSent {
				s.allSent = true
				emit("sent", map[string]any{"messages": s.sent.Messages, "bytes": s.sent.Bytes})
			}
		}
		if len(s.queue) == 0 || !s.pass(s.queue[0]) {
			return
		}
		s.queue = s.queue[1:]
	}
}

// Passes a message to the stack; false if it has no room.
func (s *session) pass(next *message) bool {
	stream := s.streams[next.stream]
	ppid := sctp.PayloadProtocolIdentifier(next.ppid)
	if stream == nil {
		opened, err := s.association.OpenStream(next.stream, ppid)
		if err != nil {
			return false
		}
		s.add(opened)
		stream = opened
	}
	if stream.BufferedAmount() >= sendLimit {
		return false
	}
	kind, value := sctp.ReliabilityTypeReliable, uint32(0)
	if s.o.timed >= 0 {
		kind, value = sctp.ReliabilityTypeTimed, uint32(s.o.timed)
	} else if s.o.retransmissions >= 0 {
		kind, value = sctp.ReliabilityTypeRexmit, uint32(s.o.retransmissions)
	}
	stream.SetReliabilityParams(next.unordered, kind, value)
	if _, err := stream.WriteSCTP(next.data, ppid); err != nil {
		if s.conn.aborted.Load() {
			return false
		}
		s.check.fail("sending %d bytes: %v", len(next.data), err)
		return true
	}
	s.sent.Messages++
	s.sent.Bytes += len(next.data)
	return true
}

// Prints the summary. Returns whether the run succeeded.
func (s *session) report(ended, by string) bool {
	if ended == "shutdown" && s.o.mode != "echo" && !s.o.gaps {
		s.check.complete()
	}
	allSent := s.o.mode != "source" || s.sent.Bytes == s.o.bytes
	ok := (ended == "shutdown" || ended == "abort") && s.check.errors == 0 && s.got.Bytes >= s.o.expect &&
		(allSent || ended == "abort" && by == "peer")
	zero := map[string]int64{}
	if s.association != nil {
		zero["sent"], zero["received"] = s.conn.zeroSent.Load(), s.conn.zeroReceived.Load()
	}
	emit("end", map[string]any{
		"zero_checksums": zero,
		"ok":             ok, "ended": ended, "by": by, "cause": 0, "sent": s.sent, "errors": s.check.errors,
		"received": map[string]any{"messages": s.got.Messages, "bytes": s.got.Bytes, "unordered": s.unordered},
	})
	return ok
}
