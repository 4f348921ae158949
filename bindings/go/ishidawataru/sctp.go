//go:build linux

// Package sctp has the exported API of github.com/ishidawataru/sctp on the Carrick daemon, for a replace
// line in go.mod. Deadlines, which the original does not have, work.
//
// PPIDs have host byte order in SCTPWrite and SCTPRead, and network byte order in SetDefaultSentParam.
// States of Status and PeerAddrinfo have Linux's numbers. Setsockopt and Getsockopt refuse
// SCTP_SOCKOPT_PEELOFF and SCTP_SOCKOPT_CONNECTX3 with ENOPROTOOPT: PeelOff and SCTPConnect take their
// place.
package sctp

import (
	"net"
	"os"
	"syscall"

	"github.com/carrick-sctp/carrick/bindings/go/compat"
)

type base = compat.Conn

// SCTPConn is an association.
type SCTPConn struct{ *base }

var _ net.Conn = (*SCTPConn)(nil)

// SocketConfig has the parameters of a socket.
type SocketConfig struct {
	// Control is called after the socket is created and before it is bound. On the descriptor,
	// SO_REUSEADDR and SO_REUSEPORT have an effect; options of SCTP do not.
	Control func(network, address string, c syscall.RawConn) error
	// NotificationHandler receives notifications.
	NotificationHandler NotificationHandler
	// InitMsg has the parameters of the set-up.
	InitMsg InitMsg
}

func (cfg *SocketConfig) options() compat.Options {
	return compat.Options{
		HostPPID: true, Init: cfg.InitMsg, Control: cfg.Control, Handler: cfg.NotificationHandler,
	}
}

// Dial connects to a peer.
func (cfg *SocketConfig) Dial(net string, laddr, raddr *SCTPAddr) (*SCTPConn, error) {
	return wrap(compat.Dial(net, laddr, raddr, cfg.options()))
}

// Listen accepts associations on an address.
func (cfg *SocketConfig) Listen(net string, laddr *SCTPAddr) (*SCTPListener, error) {
	return wrapListener(compat.Listen(net, laddr, cfg.options()))
}

func wrap(c *base, err error) (*SCTPConn, error) {
	if err != nil {
		return nil, err
	}
	return &SCTPConn{c}, nil
}

// NewSCTPConn returns the connection of a descriptor, which it owns.
func NewSCTPConn(fd int, handler NotificationHandler) *SCTPConn {
	return &SCTPConn{compat.NewConn(fd, handler, true)}
}

// DialSCTP connects to a peer from laddr, if it is not nil.
func DialSCTP(net string, laddr, raddr *SCTPAddr) (*SCTPConn, error) {
	return DialSCTPExt(net, laddr, raddr, InitMsg{NumOstreams: SCTP_MAX_STREAM})
}

// DialSCTPExt connects to a peer with parameters of the set-up.
func DialSCTPExt(network string, laddr, raddr *SCTPAddr, options InitMsg) (*SCTPConn, error) {
	return (&SocketConfig{InitMsg: options}).Dial(network, laddr, raddr)
}

// Close shuts the association down gracefully and closes the socket; EBADF if it is closed.
func (c *SCTPConn) Close() error {
	if c == nil {
		return syscall.EBADF
	}
	return c.base.Close()
}

// SCTPRead reads a message and its attributes, which are nil without a subscription to
// SCTP_EVENT_DATA_IO. Notifications are passed to the handler; without one they are returned as messages.
func (c *SCTPConn) SCTPRead(b []byte) (int, *SndRcvInfo, error) { return c.ReadHandled(b) }

// PeelOff branches an association of a one-to-many socket off.
func (c *SCTPConn) PeelOff(id int) (*SCTPConn, error) { return wrap(c.Peel(id)) }

// SackTimer is struct sctp_sack_info (RFC 6458, section 8.1.19). The delay is in milliseconds.
type SackTimer struct {
	AssocID       SCTPAssocID
	SackDelay     uint32
	SackFrequency uint32
}

// SetSackTimer sets the parameters of delayed acknowledgements.
func (c *SCTPConn) SetSackTimer(timer *SackTimer) error { return c.SetValue(SCTP_DELAYED_SACK, timer) }

// GetSackTimer returns the parameters of delayed acknowledgements.
func (c *SCTPConn) GetSackTimer() (*SackTimer, error) {
	timer := &SackTimer{}
	if err := c.GetValue(SCTP_DELAYED_SACK, timer); err != nil {
		return nil, err
	}
	return timer, nil
}

// PeerState is the state of a path.
type PeerState int32

// States of paths, with the numbers of this module; those of Linux, which PeerAddrinfo has, are others.
const (
	SCTP_UNCONFIRMED PeerState = iota
	SCTP_ACTIVE
	SCTP_INACTIVE
)

// PeerAddrinfo is struct sctp_paddrinfo (RFC 6458, section 8.2.2). Address is a sockaddr_storage; CWND
// and MTU are in bytes, SRTT and RTO in milliseconds.
type PeerAddrinfo struct {
	AssocID SCTPAssocID
	Address [128]byte
	State   PeerState
	CWND    uint32
	SRTT    uint32
	RTO     uint32
	MTU     uint32
}

// StatusState is the state of an association.
type StatusState int32

// States of associations, with the numbers of this module; those of Linux, which Status has, are others.
const (
	SCTP_CLOSED StatusState = iota
	SCTP_BOUND
	SCTP_LISTEN
	SCTP_COOKIE_WAIT
	SCTP_COOKIE_ECHOED
	SCTP_ESTABLISHED
	SCTP_SHUTDOWN_PENDING
	SCTP_SHUTDOWN_SENT
	SCTP_SHUTDOWN_RECEIVED
	SCTP_SHUTDOWN_ACK_SENT
)

// Status is struct sctp_status (RFC 6458, section 8.2.1).
type Status struct {
	AssocID            SCTPAssocID
	State              StatusState
	RWND               uint32
	Unackdata          uint16
	Penddata           uint16
	Instreams          uint16
	Ostreams           uint16
	FragmentationPoint uint32
	PrimaryPeerAddr    PeerAddrinfo
}

// GetStatus returns the status of the association.
func (c *SCTPConn) GetStatus() (*Status, error) {
	status := &Status{}
	if err := c.GetValue(SCTP_STATUS, status); err != nil {
		return nil, err
	}
	return status, nil
}

type baseListener = compat.Listener

// SCTPListener accepts associations.
type SCTPListener struct{ *baseListener }

var _ net.Listener = (*SCTPListener)(nil)

func wrapListener(l *baseListener, err error) (*SCTPListener, error) {
	if err != nil {
		return nil, err
	}
	return &SCTPListener{l}, nil
}

// ListenSCTP accepts associations on an address; nil is a port of the daemon's choice.
func ListenSCTP(net string, laddr *SCTPAddr) (*SCTPListener, error) {
	return ListenSCTPExt(net, laddr, InitMsg{NumOstreams: SCTP_MAX_STREAM})
}

// ListenSCTPExt accepts associations with parameters of the set-up.
func ListenSCTPExt(network string, laddr *SCTPAddr, options InitMsg) (*SCTPListener, error) {
	return (&SocketConfig{InitMsg: options}).Listen(network, laddr)
}

// FileListener returns the listener of a descriptor, which it duplicates.
func FileListener(file *os.File) (*SCTPListener, error) {
	return wrapListener(compat.ListenFile(file, compat.Options{HostPPID: true}))
}

// Accept waits for an association, as AcceptSCTP. The result is a *SCTPConn.
func (ln *SCTPListener) Accept() (net.Conn, error) { return ln.AcceptSCTP() }

// AcceptSCTP waits for an association; EBADF if the listener is closed. With an error the result is a
// closed connection.
func (ln *SCTPListener) AcceptSCTP() (*SCTPConn, error) {
	c, err := ln.AcceptConn()
	return &SCTPConn{c}, err
}
