//go:build linux

// Package sctp has the exported API of github.com/free5gc/sctp on the Carrick daemon, for a replace line
// in go.mod. Deadlines, which the original does not have, work.
//
// PPIDs have network byte order: 0x3c000000 is NGAP on a little-endian machine. Setsockopt and Getsockopt
// refuse SCTP_SOCKOPT_PEELOFF and SCTP_SOCKOPT_CONNECTX3 with ENOPROTOOPT: PeelOff and SCTPConnect take
// their place.
package sctp

import (
	"net"
	"syscall"

	carrick "github.com/carrick-sctp/carrick/bindings/go"
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
	// InitMsg has the parameters of the set-up.
	InitMsg InitMsg
	// RtoInfo has the retransmission timeouts; nil for the defaults.
	RtoInfo *RtoInfo
	// AssocInfo has parameters of associations; nil for the defaults.
	AssocInfo *AssocInfo
	// MaxSeg is the limit of user data in a DATA chunk in bytes; 0 is none.
	MaxSeg int
}

func (cfg *SocketConfig) options() compat.Options {
	return compat.Options{Init: cfg.InitMsg, Control: cfg.Control, Configure: func(s *carrick.Socket) error {
		if r := cfg.RtoInfo; r != nil {
			err := s.SetRTOInfo(carrick.RTOInfo{
				AssocID: carrick.AssocID(r.SrtoAssocID), Initial: r.SrtoInitial, Max: r.SrtoMax, Min: r.StroMin,
			})
			if err != nil {
				return err
			}
		}
		if cfg.MaxSeg > 0 {
			if err := s.SetMaxSeg(cfg.MaxSeg); err != nil {
				return err
			}
		}
		if cfg.AssocInfo != nil {
			return s.SetAssocParams(cfg.AssocInfo.params())
		}
		return nil
	}}
}

// Dial connects to a peer.
func (cfg *SocketConfig) Dial(net string, laddr, raddr *SCTPAddr) (*SCTPConn, error) {
	return wrap(compat.Dial(net, laddr, raddr, cfg.options()))
}

// Listen accepts associations on an address, which may have been in use before (SO_REUSEADDR).
func (cfg *SocketConfig) Listen(net string, laddr *SCTPAddr) (*SCTPListener, error) {
	listener, err := compat.Listen(net, laddr, cfg.options())
	if err != nil {
		return nil, err
	}
	return &SCTPListener{listener}, nil
}

func wrap(c *base, err error) (*SCTPConn, error) {
	if err != nil {
		return nil, err
	}
	return &SCTPConn{c}, nil
}

// NewSCTPConn returns the connection of a descriptor, which it owns. The handler is not called:
// SCTPRead returns notifications.
func NewSCTPConn(fd int, handler NotificationHandler) *SCTPConn {
	return &SCTPConn{compat.NewConn(fd, nil, false)}
}

// DialSCTP connects to a peer from laddr, if it is not nil.
func DialSCTP(net string, laddr, raddr *SCTPAddr) (*SCTPConn, error) {
	return DialSCTPExt(net, laddr, raddr, InitMsg{NumOstreams: SCTP_MAX_STREAM}, nil, nil, SCTP_DEFAULT_MAXSEG)
}

// DialSCTPExt connects to a peer with parameters.
func DialSCTPExt(
	network string, laddr, raddr *SCTPAddr, options InitMsg, rtoInfo *RtoInfo, assocInfo *AssocInfo, maxSeg int,
) (*SCTPConn, error) {
	config := SocketConfig{InitMsg: options, RtoInfo: rtoInfo, AssocInfo: assocInfo, MaxSeg: maxSeg}
	return config.Dial(network, laddr, raddr)
}

// Close shuts the association down gracefully and closes the socket; EBADF if it is closed.
func (c *SCTPConn) Close() error {
	if c == nil {
		return syscall.EBADF
	}
	return c.base.Close()
}

// SCTPRead reads a message and its attributes, which are nil without a subscription to
// SCTP_EVENT_DATA_IO, or a notification; of types other than SCTP_ASSOC_CHANGE and SCTP_SHUTDOWN_EVENT the
// bytes alone.
func (c *SCTPConn) SCTPRead(b []byte) (int, *SndRcvInfo, Notification, error) {
	n, info, isNotification, err := c.ReadMsg(b)
	if err != nil || !isNotification {
		return n, info, nil, err
	}
	return n, nil, parse(b[:n]), nil
}

// PeelOff branches an association of a one-to-many socket off.
func (c *SCTPConn) PeelOff(id int) (*SCTPConn, error) { return wrap(c.Peel(id)) }

// RtoInfo is struct sctp_rtoinfo (RFC 6458, section 8.1.1). Timeouts are in milliseconds; those that are 0
// keep the present values.
type RtoInfo struct {
	SrtoAssocID int32
	SrtoInitial uint32
	SrtoMax     uint32
	StroMin     uint32
}

// GetRtoInfo returns the retransmission timeouts.
func (c *SCTPConn) GetRtoInfo() (*RtoInfo, error) {
	info := &RtoInfo{}
	if err := c.GetValue(SCTP_RTOINFO, info); err != nil {
		return nil, err
	}
	return info, nil
}

// SetRtoInfo sets the retransmission timeouts.
func (c *SCTPConn) SetRtoInfo(rtoInfo RtoInfo) error { return c.SetValue(SCTP_RTOINFO, &rtoInfo) }

// AssocInfo is struct sctp_assocparams (RFC 6458, section 8.1.2). The cookie life is in milliseconds.
type AssocInfo struct {
	AssocID                SCTPAssocID
	AsocMaxRxt             uint16
	NumberPeerDestinations uint16
	PeerRwnd               uint32
	LocalRwnd              uint32
	CookieLife             uint32
}

func (info *AssocInfo) params() carrick.AssocParams {
	return carrick.AssocParams{
		AssocID: carrick.AssocID(info.AssocID), MaxRetrans: info.AsocMaxRxt,
		PeerDestinations: info.NumberPeerDestinations, PeerRwnd: info.PeerRwnd, LocalRwnd: info.LocalRwnd,
		CookieLife: info.CookieLife,
	}
}

// GetAssocInfo returns parameters of the association.
func (c *SCTPConn) GetAssocInfo() (*AssocInfo, error) {
	info := &AssocInfo{}
	if err := c.GetValue(SCTP_ASSOCINFO, info); err != nil {
		return nil, err
	}
	return info, nil
}

// SetAssocInfo sets parameters of the association.
func (c *SCTPConn) SetAssocInfo(info AssocInfo) error { return c.SetValue(SCTP_ASSOCINFO, &info) }

// AssocVal is struct sctp_assoc_value (RFC 6458, section 8.1).
type AssocVal struct {
	AssocID  SCTPAssocID
	AssocVal uint32
}

// GetMaxSegSize returns the limit of user data in a DATA chunk in bytes.
func (c *SCTPConn) GetMaxSegSize() (*int, error) {
	value := AssocVal{}
	if err := c.GetValue(SCTP_MAXSEG, &value); err != nil {
		return nil, err
	}
	size := int(value.AssocVal)
	return &size, nil
}

// SetMaxSegSize sets the limit of user data in a DATA chunk in bytes.
func (c *SCTPConn) SetMaxSegSize(size int) error {
	return c.SetValue(SCTP_MAXSEG, &AssocVal{AssocVal: uint32(size)})
}

// GetNoDelay returns 1 if small messages are sent without delay, else 0.
func (c *SCTPConn) GetNoDelay() (int, error) {
	var value int32
	err := c.GetValue(SCTP_NODELAY, &value)
	return int(value), err
}

// SetNoDelay sets whether small messages are sent without delay.
func (c *SCTPConn) SetNoDelay(optval int) error {
	value := int32(optval)
	return c.SetValue(SCTP_NODELAY, &value)
}

type baseListener = compat.Listener

// SCTPListener accepts associations.
type SCTPListener struct{ *baseListener }

// ListenSCTP accepts associations on an address; nil is a port of the daemon's choice.
func ListenSCTP(net string, laddr *SCTPAddr) (*SCTPListener, error) {
	return ListenSCTPExt(net, laddr, InitMsg{NumOstreams: SCTP_MAX_STREAM}, nil, nil, SCTP_DEFAULT_MAXSEG)
}

// ListenSCTPExt accepts associations with parameters.
func ListenSCTPExt(
	network string, laddr *SCTPAddr, options InitMsg, rtoInfo *RtoInfo, assocInfo *AssocInfo, maxSeg int,
) (*SCTPListener, error) {
	config := SocketConfig{InitMsg: options, RtoInfo: rtoInfo, AssocInfo: assocInfo, MaxSeg: maxSeg}
	return config.Listen(network, laddr)
}

// Accept waits for an association, as AcceptSCTP. The result is a *SCTPConn.
func (ln *SCTPListener) Accept(timeout int) (net.Conn, error) { return ln.AcceptSCTP(timeout) }

// AcceptSCTP waits for an association. With a closed listener it returns nil without an error, whatever
// the timeout; that is the time in milliseconds after which the original looks for Close. With an error the
// result is a closed connection.
func (ln *SCTPListener) AcceptSCTP(timeout int) (*SCTPConn, error) {
	c, err := ln.AcceptConn()
	if ln.Stopped() && err != nil {
		return nil, nil
	}
	return &SCTPConn{c}, err
}

// IsStopped returns whether the listener is closed.
func (ln *SCTPListener) IsStopped() bool { return ln.Stopped() }

// MaxSeg returns the limit of user data in a DATA chunk in bytes.
func (ln *SCTPListener) MaxSeg() (int, error) {
	size, err := ln.Core().MaxSeg()
	return size, compat.Errno(err)
}
