package sctp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"testing"
)

// notification returns the bytes of a notification in Linux's layout.
func notification(kind NotificationType, size int, fill func([]byte)) []byte {
	b := make([]byte, size)
	native.PutUint16(b, uint16(kind))
	native.PutUint32(b[4:], uint32(size))
	fill(b)
	return b
}

// RFC 6458, section 6.1, and RFC 6525, section 6.1, in Linux's layout
func TestNotificationsAreParsed(t *testing.T) {
	put16 := func(b []byte, at int, value uint16) { native.PutUint16(b[at:], value) }
	put32 := func(b []byte, at int, value uint32) { native.PutUint32(b[at:], value) }
	for _, c := range []struct {
		bytes []byte
		want  Notification
	}{
		{notification(AssocChangeType, 22, func(b []byte) {
			put16(b, 8, 1)
			binary.BigEndian.PutUint16(b[10:], 12)
			put16(b, 12, 10)
			put16(b, 14, 20)
			put32(b, 16, 5)
			b[20] = 6
		}), &AssocChange{CommLost, 12, 10, 20, 5, []byte{6, 0}}},
		{notification(PeerAddrChangeType, 148, func(b []byte) {
			putSockaddr(b[8:], netip.MustParseAddrPort("[::ffff:192.0.2.1]:9"), 0)
			put32(b, 136, 5)
			put32(b, 140, 110)
			put32(b, 144, 7)
		}), &PeerAddrChange{netip.MustParseAddr("192.0.2.1"), AddrConfirmed, 110, 7}},
		{notification(RemoteErrorType, 18, func(b []byte) {
			binary.BigEndian.PutUint16(b[8:], 6)
			put32(b, 12, 7)
		}), &RemoteError{6, 7, []byte{0, 0}}},
		{notification(ShutdownEventType, 12, func(b []byte) { put32(b, 8, 7) }), &ShutdownEvent{7}},
		{notification(PartialDeliveryType, 24, func(b []byte) {
			put32(b, 12, 7)
			put32(b, 16, 3)
			put32(b, 20, 4)
		}), &PartialDelivery{0, 7, 3, 4}},
		{notification(AdaptationType, 16, func(b []byte) { put32(b, 8, 3); put32(b, 12, 7) }), &Adaptation{3, 7}},
		{notification(AuthenticationType, 20, func(b []byte) {
			put16(b, 8, 1)
			put32(b, 12, 2)
			put32(b, 16, 7)
		}), &Authentication{1, 2, 7}},
		{notification(SenderDryType, 12, func(b []byte) { put32(b, 8, 7) }), &SenderDry{7}},
		{notification(StreamResetType, 16, func(b []byte) {
			put16(b, 2, ResetOutgoing)
			put32(b, 8, 7)
			put16(b, 12, 1)
			put16(b, 14, 2)
		}), &StreamReset{ResetOutgoing, 7, []uint16{1, 2}}},
		{notification(AssocResetType, 20, func(b []byte) { put32(b, 8, 7); put32(b, 12, 1); put32(b, 16, 2) }),
			&AssocReset{0, 7, 1, 2}},
		{notification(StreamChangeType, 16, func(b []byte) { put32(b, 8, 7); put16(b, 12, 1); put16(b, 14, 2) }),
			&StreamChange{0, 7, 1, 2}},
		{notification(SendFailedType, 34, func(b []byte) {
			put16(b, 2, 1)
			put16(b, 12, 3)
			put16(b, 14, Unordered)
			binary.BigEndian.PutUint32(b[16:], 60)
			put32(b, 20, 9)
			put32(b, 24, 7)
			put32(b, 28, 7)
		}), &SendFailed{true, 0, SndInfo{Stream: 3, Flags: Unordered, PPID: 60, Context: 9, AssocID: 7}, 7, []byte{0, 0}}},
		{notification(0x8fff, 8, func([]byte) {}), &UnknownNotification{0x8fff, notification(0x8fff, 8, func([]byte) {})}},
	} {
		got, err := ParseNotification(c.bytes)
		if err != nil || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", c.want) || got.Assoc() != c.want.Assoc() {
			t.Errorf("%+v, %v, not %+v", got, err, c.want)
		}
		size := len(c.bytes)
		if _, err := ParseNotification(c.bytes[:size-1]); !errors.Is(err, ErrShortNotification) {
			t.Errorf("%T without its last byte: %v", c.want, err)
		}
	}
}
