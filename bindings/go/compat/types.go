//go:build linux

package compat

// SCTPAssocID identifies an association.
type SCTPAssocID int32

// SCTPNotificationType is the type of a notification.
type SCTPNotificationType int

// SCTPState is the state of an association in a notification.
type SCTPState uint16

// NotificationHandler receives a notification in Linux's layout. An error ends the read.
type NotificationHandler func([]byte) error

// EventSubscribe is struct sctp_event_subscribe (RFC 6458, section 6.2.1).
type EventSubscribe struct {
	DataIO          uint8
	Association     uint8
	Address         uint8
	SendFailure     uint8
	PeerError       uint8
	Shutdown        uint8
	PartialDelivery uint8
	AdaptationLayer uint8
	Authentication  uint8
	SenderDry       uint8
}

// GetAddrsOld is struct sctp_getaddrs_old.
type GetAddrsOld struct {
	AssocID int32
	AddrNum int32
	Addrs   uintptr
}

// InitMsg is struct sctp_initmsg (RFC 6458, section 5.3.1). Fields that are 0 keep the defaults.
type InitMsg struct {
	NumOstreams    uint16
	MaxInstreams   uint16
	MaxAttempts    uint16
	MaxInitTimeout uint16
}

// NotificationHeader is the header of notifications (RFC 6458, section 6.1).
type NotificationHeader struct {
	Type   uint16
	Flags  uint16
	Length uint32
}

// SndRcvInfo is struct sctp_sndrcvinfo (RFC 6458, section 5.3.2).
type SndRcvInfo struct {
	Stream  uint16
	SSN     uint16
	Flags   uint16
	_       uint16
	PPID    uint32
	Context uint32
	TTL     uint32
	TSN     uint32
	CumTSN  uint32
	AssocID int32
}

// SndInfo is struct sctp_sndinfo (RFC 6458, section 5.3.4).
type SndInfo struct {
	SID     uint16
	Flags   uint16
	PPID    uint32
	Context uint32
	AssocID int32
}

// Options and events, with Linux's numbers.
const (
	optInitMsg          = 2
	optDefaultSentParam = 10
	optEvents           = 11
	levelSCTP           = 132

	policyMask     = 0x30
	sndRcvInfoSize = 32
)

// The bits of SubscribeEvents, in the order of EventSubscribe.
const eventBits = 10
