package sctp

import (
	"encoding/binary"
	"errors"
	"net/netip"
)

// NotificationType is the type of a notification (RFC 6458, section 6.1).
type NotificationType uint16

// Types of notifications, for [Socket.Subscribe].
const (
	DataIOType          NotificationType = 0x8000
	AssocChangeType     NotificationType = 0x8001
	PeerAddrChangeType  NotificationType = 0x8002
	RemoteErrorType     NotificationType = 0x8004
	ShutdownEventType   NotificationType = 0x8005
	PartialDeliveryType NotificationType = 0x8006
	AdaptationType      NotificationType = 0x8007
	AuthenticationType  NotificationType = 0x8008
	SenderDryType       NotificationType = 0x8009
	StreamResetType     NotificationType = 0x800a
	AssocResetType      NotificationType = 0x800b
	StreamChangeType    NotificationType = 0x800c
	SendFailedType      NotificationType = 0x800d
)

// Notification is one of [*AssocChange], [*PeerAddrChange], [*RemoteError], [*ShutdownEvent],
// [*PartialDelivery], [*Adaptation], [*Authentication], [*SenderDry], [*StreamReset], [*AssocReset],
// [*StreamChange], [*SendFailed] and [*UnknownNotification].
type Notification interface {
	// Type returns the type of the notification.
	Type() NotificationType
	// Assoc returns the association.
	Assoc() AssocID
}

// AssocChangeState is the state of an [AssocChange].
type AssocChangeState uint16

// States of associations in notifications.
const (
	CommUp AssocChangeState = iota
	CommLost
	Restart
	ShutdownComplete
	CannotStartAssoc
)

// AssocChange notifies of an association that was set up, restarted or has ended (RFC 6458, section
// 6.1.1).
type AssocChange struct {
	State AssocChangeState
	// Error is the cause code of RFC 9260, section 3.3.10, or 0.
	Error           uint16
	OutboundStreams uint16
	InboundStreams  uint16
	AssocID         AssocID
	// Info has the ABORT chunk of an association that was lost, or the features of one that was set up.
	Info []byte
}

// PeerAddrState is the state of a [PeerAddrChange].
type PeerAddrState int32

// States of peer addresses in notifications.
const (
	AddrAvailable PeerAddrState = iota
	AddrUnreachable
	AddrRemoved
	AddrAdded
	AddrMadePrimary
	AddrConfirmed
	AddrPotentiallyFailed
)

// PeerAddrChange notifies of a change of a peer address (RFC 6458, section 6.1.2).
type PeerAddrChange struct {
	Addr    netip.Addr
	State   PeerAddrState
	Error   int32
	AssocID AssocID
}

// RemoteError notifies of an ERROR chunk of the peer (RFC 6458, section 6.1.3).
type RemoteError struct {
	// Error is the cause code.
	Error   uint16
	AssocID AssocID
	// Data has the error cause.
	Data []byte
}

// ShutdownEvent notifies of a SHUTDOWN of the peer (RFC 6458, section 6.1.5).
type ShutdownEvent struct{ AssocID AssocID }

// PartialDelivery notifies of a message that is not completed (RFC 6458, section 6.1.7).
type PartialDelivery struct {
	Indication uint32
	AssocID    AssocID
	Stream     uint32
	SSN        uint32
}

// Adaptation notifies of the Adaptation Layer Indication of the peer (RFC 6458, section 6.1.6).
type Adaptation struct {
	Indication uint32
	AssocID    AssocID
}

// Authentication notifies of a new or unused key (RFC 6458, section 6.1.8).
type Authentication struct {
	KeyNumber  uint16
	Indication uint32
	AssocID    AssocID
}

// SenderDry notifies of an empty send buffer (RFC 6458, section 6.1.9).
type SenderDry struct{ AssocID AssocID }

// Flags of [StreamReset], [AssocReset] and [StreamChange].
const (
	ResetIncoming uint16 = 1
	ResetOutgoing uint16 = 2
	ResetDenied   uint16 = 4
	ResetFailed   uint16 = 8
)

// StreamReset notifies of streams that were reset (RFC 6525, section 6.1.1).
type StreamReset struct {
	Flags   uint16
	AssocID AssocID
	// Streams has the stream identifiers; none stands for all streams.
	Streams []uint16
}

// AssocReset notifies of an association that was reset (RFC 6525, section 6.1.2).
type AssocReset struct {
	Flags     uint16
	AssocID   AssocID
	LocalTSN  uint32
	RemoteTSN uint32
}

// StreamChange notifies of streams that were added (RFC 6525, section 6.1.3).
type StreamChange struct {
	Flags   uint16
	AssocID AssocID
	// Inbound and Outbound are the numbers of streams that were added.
	Inbound, Outbound uint16
}

// SendFailed notifies of a message that was not delivered (RFC 6458, section 6.1.11).
type SendFailed struct {
	// Sent is set if a part of the message may have reached the peer.
	Sent  bool
	Error uint32
	// Info has the attributes of the message.
	Info    SndInfo
	AssocID AssocID
	// Data is the message.
	Data []byte
}

// UnknownNotification is a notification of another type.
type UnknownNotification struct {
	NotificationType NotificationType
	// Data has the notification with its header.
	Data []byte
}

func (n *AssocChange) Type() NotificationType         { return AssocChangeType }
func (n *PeerAddrChange) Type() NotificationType      { return PeerAddrChangeType }
func (n *RemoteError) Type() NotificationType         { return RemoteErrorType }
func (n *ShutdownEvent) Type() NotificationType       { return ShutdownEventType }
func (n *PartialDelivery) Type() NotificationType     { return PartialDeliveryType }
func (n *Adaptation) Type() NotificationType          { return AdaptationType }
func (n *Authentication) Type() NotificationType      { return AuthenticationType }
func (n *SenderDry) Type() NotificationType           { return SenderDryType }
func (n *StreamReset) Type() NotificationType         { return StreamResetType }
func (n *AssocReset) Type() NotificationType          { return AssocResetType }
func (n *StreamChange) Type() NotificationType        { return StreamChangeType }
func (n *SendFailed) Type() NotificationType          { return SendFailedType }
func (n *UnknownNotification) Type() NotificationType { return n.NotificationType }

func (n *AssocChange) Assoc() AssocID         { return n.AssocID }
func (n *PeerAddrChange) Assoc() AssocID      { return n.AssocID }
func (n *RemoteError) Assoc() AssocID         { return n.AssocID }
func (n *ShutdownEvent) Assoc() AssocID       { return n.AssocID }
func (n *PartialDelivery) Assoc() AssocID     { return n.AssocID }
func (n *Adaptation) Assoc() AssocID          { return n.AssocID }
func (n *Authentication) Assoc() AssocID      { return n.AssocID }
func (n *SenderDry) Assoc() AssocID           { return n.AssocID }
func (n *StreamReset) Assoc() AssocID         { return n.AssocID }
func (n *AssocReset) Assoc() AssocID          { return n.AssocID }
func (n *StreamChange) Assoc() AssocID        { return n.AssocID }
func (n *SendFailed) Assoc() AssocID          { return n.AssocID }
func (n *UnknownNotification) Assoc() AssocID { return 0 }

// ErrShortNotification is the error of [ParseNotification] for bytes that are too few, as of a
// notification that was larger than the buffer.
var ErrShortNotification = errors.New("sctp: notification is too short")

// notificationSizes has the sizes of the structs in bytes, without their flexible arrays.
var notificationSizes = map[NotificationType]int{
	AssocChangeType:     20,
	PeerAddrChangeType:  148,
	RemoteErrorType:     16,
	ShutdownEventType:   12,
	PartialDeliveryType: 24,
	AdaptationType:      16,
	AuthenticationType:  20,
	SenderDryType:       12,
	StreamResetType:     12,
	AssocResetType:      20,
	StreamChangeType:    16,
	SendFailedType:      32,
}

// ParseNotification returns the notification of the bytes that [Socket.ReadMsg] has read, in Linux's
// layout. Slices of the notification are parts of b.
func ParseNotification(b []byte) (Notification, error) {
	if len(b) < 8 {
		return nil, ErrShortNotification
	}
	kind, flags, length := NotificationType(native.Uint16(b)), native.Uint16(b[2:]), native.Uint32(b[4:])
	if uint64(length) > uint64(len(b)) || int(length) < notificationSizes[kind] {
		return nil, ErrShortNotification
	}
	b = b[:length]
	half := func(at int) uint16 { return native.Uint16(b[at:]) }
	word := func(at int) uint32 { return native.Uint32(b[at:]) }
	assoc := func(at int) AssocID { return AssocID(word(at)) }
	switch kind {
	case AssocChangeType:
		return &AssocChange{
			State: AssocChangeState(half(8)), Error: binary.BigEndian.Uint16(b[10:]),
			OutboundStreams: half(12), InboundStreams: half(14), AssocID: assoc(16), Info: b[20:],
		}, nil
	case PeerAddrChangeType:
		address, _, _, err := sockaddr(b[8:136])
		if err != nil {
			return nil, err
		}
		return &PeerAddrChange{
			Addr: address.Addr().Unmap(), State: PeerAddrState(word(136)), Error: int32(word(140)),
			AssocID: assoc(144),
		}, nil
	case RemoteErrorType:
		return &RemoteError{Error: binary.BigEndian.Uint16(b[8:]), AssocID: assoc(12), Data: b[16:]}, nil
	case ShutdownEventType:
		return &ShutdownEvent{assoc(8)}, nil
	case PartialDeliveryType:
		return &PartialDelivery{Indication: word(8), AssocID: assoc(12), Stream: word(16), SSN: word(20)}, nil
	case AdaptationType:
		return &Adaptation{Indication: word(8), AssocID: assoc(12)}, nil
	case AuthenticationType:
		return &Authentication{KeyNumber: half(8), Indication: word(12), AssocID: assoc(16)}, nil
	case SenderDryType:
		return &SenderDry{assoc(8)}, nil
	case StreamResetType:
		reset := &StreamReset{Flags: flags, AssocID: assoc(8)}
		for at := 12; at+2 <= len(b); at += 2 {
			reset.Streams = append(reset.Streams, half(at))
		}
		return reset, nil
	case AssocResetType:
		return &AssocReset{Flags: flags, AssocID: assoc(8), LocalTSN: word(12), RemoteTSN: word(16)}, nil
	case StreamChangeType:
		return &StreamChange{Flags: flags, AssocID: assoc(8), Inbound: half(12), Outbound: half(14)}, nil
	case SendFailedType:
		return &SendFailed{
			Sent: flags != 0, Error: word(8),
			Info: SndInfo{
				Stream: half(12), Flags: half(14), PPID: binary.BigEndian.Uint32(b[16:]), Context: word(20),
				AssocID: assoc(24),
			},
			AssocID: assoc(28), Data: b[32:],
		}, nil
	}
	return &UnknownNotification{kind, b}, nil
}
