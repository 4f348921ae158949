package sctp

import "net/netip"

// AssocID identifies an association of a socket (sctp_assoc_t). It is 0 where the socket has one
// association alone.
type AssocID int32

// SndInfo has the attributes of a sent message (RFC 6458, sections 5.3.4 and 5.3.7).
type SndInfo struct {
	// Stream is the stream identifier.
	Stream uint16
	// Flags is a combination of [Unordered], [SackImmediately] and, on one-to-many sockets, [AddrOver],
	// [AbortAssoc], [SendAll] and [EOF].
	Flags uint16
	// PPID is the payload protocol identifier as IANA registers it: 60 for NGAP.
	PPID uint32
	// Context is returned in notifications of messages that were not sent.
	Context uint32
	// AssocID is the association, on one-to-many sockets.
	AssocID AssocID
	// PR is the policy of partial reliability.
	PR PRInfo
}

// PRInfo is a policy of partial reliability (RFC 6458, section 5.3.7). The zero value is reliable
// delivery.
type PRInfo struct {
	Policy PRPolicy
	// Value is the lifetime in milliseconds, the limit of retransmissions or the priority.
	Value uint32
}

// RcvInfo has the attributes of a received message (RFC 6458, section 5.3.5).
type RcvInfo struct {
	// Stream is the stream identifier.
	Stream uint16
	// SSN is the stream sequence number.
	SSN uint16
	// Flags is [Unordered] or 0.
	Flags uint16
	// PPID is the payload protocol identifier as IANA registers it.
	PPID uint32
	// TSN is the transmission sequence number of the first DATA chunk.
	TSN uint32
	// CumTSN is the cumulative TSN, which the daemon does not report: 0.
	CumTSN uint32
	// Context is the one of [Socket.SetContext].
	Context uint32
	// AssocID is the association.
	AssocID AssocID
	// From is the primary address of the peer.
	From netip.AddrPort
	// EOR is set if the end of the message has been read.
	EOR bool

	notification bool
}

// IsNotification returns whether the message is a notification, for [ParseNotification].
func (info *RcvInfo) IsNotification() bool { return info.notification }
