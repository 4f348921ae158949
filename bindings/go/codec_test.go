package sctp

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"
)

func headers() []frameHeader {
	info := RcvInfo{Stream: 1, SSN: 2, Flags: 3, PPID: 4, TSN: 5, CumTSN: 6, Context: 7, AssocID: -1}
	var all []frameHeader
	for _, from := range []string{"", "192.0.2.1:5000", "[2001:db8::1]:38412", "[fe80::1%7]:1"} {
		if from != "" {
			info.From = netip.MustParseAddrPort(from)
		}
		all = append(all,
			frameHeader{kind: frameMessage, isEnd: true, info: info},
			frameHeader{kind: frameSend, isNotification: true, sequence: 0xffffffff, control: maxControl, info: info})
	}
	return all
}

func TestHeadersRoundTrip(t *testing.T) {
	for _, header := range headers() {
		encoded := header.append(nil)
		decoded, err := decodeHeader(encoded)
		if len(encoded) != headerSize || err != nil || decoded != header {
			t.Errorf("%+v became %+v, %v", header, decoded, err)
		}
	}
}

// The layout of crate carrick-ipc.
func TestHeaderLayout(t *testing.T) {
	header := frameHeader{kind: frameSend, isEnd: true, control: 32, info: RcvInfo{Stream: 9, PPID: 60, AssocID: 5}}
	encoded := header.append(nil)
	if native.Uint32(encoded) != 0x43534601 || native.Uint16(encoded[4:]) != 4 || native.Uint16(encoded[6:]) != 1 ||
		native.Uint16(encoded[12:]) != 32 || native.Uint16(encoded[14:]) != 9 || native.Uint32(encoded[36:]) != 5 {
		t.Errorf("% x", encoded)
	}
	// The sockets API passes the PPID in network byte order.
	if !bytes.Equal(encoded[20:24], []byte{0, 0, 0, 60}) {
		t.Errorf("PPID % x", encoded[20:24])
	}
}

func TestDamagedHeadersAreMalformed(t *testing.T) {
	good := (&frameHeader{kind: frameMessage}).append(nil)
	if _, err := decodeHeader(good[:headerSize-1]); !errors.Is(err, errMalformed) {
		t.Error("a short header was accepted")
	}
	for _, damage := range []struct {
		at    int
		value byte
	}{{0, 9}, {4, 6}, {6, 8}, {13, 2}, {40, 99}, {50, 1}, {70, 1}} {
		bad := bytes.Clone(good)
		bad[damage.at] = damage.value
		if _, err := decodeHeader(bad); !errors.Is(err, errMalformed) {
			t.Errorf("byte %d: %v", damage.at, err)
		}
	}
}

func TestRepliesRoundTrip(t *testing.T) {
	for _, want := range []reply{
		{value: []byte{}},
		{errno: 115, result: -1, description: description{propertySndRcv | propertyOneToMany, 65535, 212992}, value: []byte("value")},
	} {
		got, err := decodeReply(want.append(nil))
		if err != nil || got.errno != want.errno || got.result != want.result || got.description != want.description ||
			!bytes.Equal(got.value, want.value) {
			t.Errorf("%+v became %+v, %v", want, got, err)
		}
	}
}

func TestRequestLayout(t *testing.T) {
	r := request{code: requestSend, a: 1, b: 2, c: 3, first: []byte("ab"), second: []byte("message")}
	encoded := r.append(nil)
	for at, want := range map[int]uint32{0: 0x43535101, 4: 11, 8: 1, 12: 2, 16: 3, 20: 2} {
		if got := native.Uint32(encoded[at:]); got != want {
			t.Errorf("offset %d: %d, not %d", at, got, want)
		}
	}
	if string(encoded[requestFields:]) != "abmessage" {
		t.Errorf("%q", encoded[requestFields:])
	}
}

// RFC 6458, section 5.3.4, and the alignment of ancillary data.
func TestAncillaryDataLayout(t *testing.T) {
	info := SndInfo{Stream: 1, Flags: Unordered, PPID: 60, Context: 7, AssocID: 9, PR: PRInfo{PRRTX, 3}}
	control := appendControl(nil, &info)
	if len(control) != 32+24 || native.Uint64(control) != 32 || native.Uint32(control[8:]) != 132 ||
		native.Uint32(control[12:]) != 2 || native.Uint64(control[32:]) != 24 || native.Uint32(control[44:]) != 5 {
		t.Errorf("% x", control)
	}
	if len(appendControl(nil, nil)) != 0 || len(appendControl(nil, &SndInfo{})) != 32 {
		t.Error("attributes without a policy have SCTP_SNDINFO alone")
	}
}

func FuzzHeader(f *testing.F) {
	for _, header := range headers() {
		f.Add(header.append(nil))
	}
	f.Add([]byte("GET / HTTP/1.1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		header, err := decodeHeader(b)
		if err == nil && !bytes.Equal(header.append(nil), b[:headerSize]) {
			t.Errorf("% x became %+v", b, header)
		}
	})
}

func FuzzReply(f *testing.F) {
	f.Add((&reply{errno: 11}).append(nil))
	f.Add((&reply{description: description{knownProperties, 10, 1 << 20}, value: make([]byte, 40)}).append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := decodeReply(b)
		if err == nil && !bytes.Equal(got.append(nil), b) {
			t.Errorf("% x became %+v", b, got)
		}
		if err == nil {
			// Lists of addresses come in values.
			sockaddrs(got.value)
		}
	})
}

func FuzzNotification(f *testing.F) {
	for kind, size := range notificationSizes {
		b := make([]byte, size+4)
		native.PutUint16(b, uint16(kind))
		native.PutUint32(b[4:], uint32(len(b)))
		native.PutUint16(b[8:], afInet)
		f.Add(b)
		f.Add(b[:size/2])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		notification, err := ParseNotification(b)
		if (notification == nil) == (err == nil) {
			t.Errorf("% x: %v, %v", b, notification, err)
		}
		if err == nil && uint16(notification.Type()) != native.Uint16(b) {
			t.Errorf("type %#x", notification.Type())
		}
	})
}

func FuzzAddr(f *testing.F) {
	for _, address := range []string{":0", "127.0.0.1:1", "[::1]:80", "10.0.0.1/[fe80::1%1]:9", "x", "[::1", "::1:5"} {
		f.Add(address)
	}
	f.Fuzz(func(t *testing.T, address string) {
		for _, c := range address {
			// Names are looked up.
			if c != '/' && c != '.' && c != ':' && c != '[' && c != ']' && (c < '0' || c > '9') {
				return
			}
		}
		resolved, err := ResolveAddr("sctp", address)
		if err != nil {
			return
		}
		again, err := ResolveAddr("sctp", resolved.String())
		if err != nil || again.String() != resolved.String() {
			t.Errorf("%q became %v, then %v, %v", address, resolved, again, err)
		}
	})
}
