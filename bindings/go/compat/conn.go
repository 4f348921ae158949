//go:build linux

package compat

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	sctp "github.com/carrick-sctp/carrick/bindings/go"
)

// Conn has the methods that the connections of both modules have in common.
type Conn struct {
	conn *sctp.Conn
	// hostPPID is set if payload protocol identifiers have host byte order in SndRcvInfo.
	hostPPID bool
	handler  NotificationHandler
	closed   atomic.Bool
	// readTimeout and writeTimeout are limits of each call in nanoseconds; 0 is none.
	readTimeout, writeTimeout atomic.Int64
}

// Options are the parameters of a socket.
type Options struct {
	// HostPPID is set if payload protocol identifiers have host byte order in SndRcvInfo.
	HostPPID bool
	Init     InitMsg
	Control  func(network, address string, c syscall.RawConn) error
	Handler  NotificationHandler
	// Configure sets further options.
	Configure func(*sctp.Socket) error
}

// Dial connects to a peer.
func Dial(network string, local, remote *SCTPAddr, options Options) (*Conn, error) {
	if remote == nil {
		return nil, errNoAddress
	}
	config := options.config(network, local)
	config.LocalAddr = local.core()
	conn, err := config.DialAddr(context.Background(), networkOf(network), remote.core())
	if err != nil {
		return nil, Errno(err)
	}
	return &Conn{conn: conn, hostPPID: options.HostPPID, handler: options.Handler}, nil
}

func (o *Options) config(network string, local *SCTPAddr) *sctp.Config {
	return &sctp.Config{Control: func(s *sctp.Socket) error {
		if err := o.control(s, network, local); err != nil {
			return err
		}
		if o.Configure != nil {
			if err := o.Configure(s); err != nil {
				return err
			}
		}
		return s.SetOption(levelSCTP, optInitMsg, pack(&o.Init))
	}}
}

func (o *Options) control(s *sctp.Socket, network string, local *SCTPAddr) error {
	if o.Control == nil {
		return nil
	}
	address := ""
	if local != nil {
		address = local.String()
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return err
	}
	if err := o.Control(network, address, raw); err != nil {
		return err
	}
	return copyOptions(raw, s)
}

// copyOptions passes the options of SOL_SOCKET that a function has set on the descriptor, where they have
// no effect, to the socket.
func copyOptions(raw syscall.RawConn, s *sctp.Socket) error {
	var failed error
	err := raw.Control(func(fd uintptr) {
		for _, option := range []struct {
			name int
			set  func(bool) error
		}{{syscall.SO_REUSEADDR, s.SetReuseAddr}, {soReusePort, s.SetReusePort}} {
			value, err := syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, option.name)
			if err == nil && value != 0 {
				failed = errors.Join(failed, option.set(true))
			}
		}
	})
	return errors.Join(err, failed)
}

const soReusePort = 15

// NewConn returns the connection of a descriptor, which it owns. With a descriptor that is not Carrick's,
// all calls return EBADF.
func NewConn(fd int, handler NotificationHandler, hostPPID bool) *Conn {
	c := &Conn{hostPPID: hostPPID, handler: handler}
	if fd >= 0 {
		// The connection has no way to report the error but in its calls.
		c.conn, _ = sctp.FDConn(fd)
	}
	return c
}

// Errno returns the error of the system that the modules return: of a closed socket EBADF, without a
// daemon EPROTONOSUPPORT with the reason.
func Errno(err error) error {
	var errno syscall.Errno
	var failed *net.OpError
	switch {
	case err == nil || err == io.EOF:
		return err
	case errors.Is(err, net.ErrClosed):
		return syscall.EBADF
	case errors.Is(err, sctp.ErrNoDaemon):
		return fmt.Errorf("%w: %w", syscall.EPROTONOSUPPORT, err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return os.ErrDeadlineExceeded
	case errors.As(err, &errno):
		return errno
	case errors.As(err, &failed):
		return failed.Err
	}
	return err
}

// open returns the connection below, or nil if it is closed.
func (c *Conn) open() *sctp.Conn {
	if c == nil || c.closed.Load() {
		return nil
	}
	return c.conn
}

// Core returns the connection below; nil if it is closed.
func (c *Conn) Core() *sctp.Conn { return c.open() }

// Close shuts the association down gracefully and closes the socket.
func (c *Conn) Close() error {
	conn := c.open()
	if conn == nil || c.closed.Swap(true) {
		return syscall.EBADF
	}
	return Errno(conn.Close())
}

// ReadMsg reads a message or a notification. The attributes are nil for notifications, and without a
// subscription to SCTP_EVENT_DATA_IO.
func (c *Conn) ReadMsg(b []byte) (n int, info *SndRcvInfo, notification bool, err error) {
	conn := c.open()
	if conn == nil {
		return 0, nil, false, syscall.EBADF
	}
	limit := c.readTimeout.Load()
	if limit > 0 {
		conn.SetReadDeadline(time.Now().Add(time.Duration(limit)))
	}
	n, received, err := conn.ReadMsg(b)
	if err != nil {
		return n, nil, false, timedOut(limit, Errno(err))
	}
	if received.IsNotification() {
		return n, nil, true, nil
	}
	if !conn.HasSndRcv() {
		return n, nil, false, nil
	}
	return n, &SndRcvInfo{
		Stream: received.Stream, SSN: received.SSN, Flags: received.Flags, PPID: c.order(received.PPID),
		Context: received.Context, TSN: received.TSN, CumTSN: received.CumTSN, AssocID: int32(received.AssocID),
	}, false, nil
}

// timedOut returns EAGAIN for a call that a timeout of the socket has ended.
func timedOut(limit int64, err error) error {
	if limit > 0 && err == os.ErrDeadlineExceeded {
		return syscall.EAGAIN
	}
	return err
}

// order converts a payload protocol identifier between host byte order and the order of SndRcvInfo.
func (c *Conn) order(ppid uint32) uint32 {
	if c.hostPPID {
		return ppid
	}
	return native.Uint32(binary.BigEndian.AppendUint32(nil, ppid))
}

// ReadHandled reads a message. Notifications are passed to the handler; without one they are returned as
// messages.
func (c *Conn) ReadHandled(b []byte) (int, *SndRcvInfo, error) {
	for {
		n, info, notification, err := c.ReadMsg(b)
		if err != nil || !notification || c.handler == nil {
			return n, info, err
		}
		if err := c.handler(b[:n]); err != nil {
			return 0, nil, err
		}
	}
}

// Read reads a message, without its attributes.
func (c *Conn) Read(b []byte) (int, error) {
	n, _, err := c.ReadHandled(b)
	return n, err
}

// Write sends a message with the default attributes.
func (c *Conn) Write(b []byte) (int, error) { return c.SCTPWrite(b, nil) }

// SCTPWrite sends a message with attributes; nil stands for the default ones.
func (c *Conn) SCTPWrite(b []byte, info *SndRcvInfo) (int, error) {
	conn := c.open()
	if conn == nil {
		return 0, syscall.EBADF
	}
	limit := c.writeTimeout.Load()
	if limit > 0 {
		conn.SetWriteDeadline(time.Now().Add(time.Duration(limit)))
	}
	n, err := conn.WriteMsg(b, c.attributes(info))
	return n, timedOut(limit, Errno(err))
}

// attributes returns the attributes of a message. As in SCTP_SNDRCV, the flags have the policy of partial
// reliability and the time to live is its value.
func (c *Conn) attributes(info *SndRcvInfo) *sctp.SndInfo {
	if info == nil {
		return nil
	}
	attributes := &sctp.SndInfo{
		Stream: info.Stream, Flags: info.Flags &^ policyMask, PPID: c.order(info.PPID), Context: info.Context,
		AssocID: sctp.AssocID(info.AssocID),
	}
	if info.TTL > 0 {
		attributes.PR = sctp.PRInfo{Policy: sctp.PRPolicy(info.Flags & policyMask), Value: info.TTL}
		if attributes.PR.Policy == sctp.PRNone {
			attributes.PR.Policy = sctp.PRTTL
		}
	}
	return attributes
}

// WriteWrapped sends a message behind its attributes in Linux's layout.
func (c *Conn) WriteWrapped(b []byte) (int, error) {
	if len(b) < sndRcvInfoSize {
		return 0, syscall.EINVAL
	}
	var info SndRcvInfo
	unpack(b, &info)
	n, err := c.SCTPWrite(b[sndRcvInfoSize:], &info)
	return n + sndRcvInfoSize, err
}

// ReadWrapped reads a message behind its attributes in Linux's layout.
func (c *Conn) ReadWrapped(b []byte) (int, error) {
	if len(b) < sndRcvInfoSize {
		return 0, syscall.EINVAL
	}
	n, info, err := c.ReadHandled(b[sndRcvInfoSize:])
	if err != nil {
		return n, err
	}
	if info == nil {
		info = &SndRcvInfo{}
	}
	copy(b, pack(info))
	return n + sndRcvInfoSize, nil
}

// LocalAddr returns the local addresses.
func (c *Conn) LocalAddr() net.Addr {
	if c == nil || c.conn == nil {
		return nil
	}
	return addrOf(c.conn.LocalAddr().(*sctp.Addr))
}

// RemoteAddr returns the addresses of the peer.
func (c *Conn) RemoteAddr() net.Addr {
	if c == nil || c.conn == nil {
		return nil
	}
	return addrOf(c.conn.RemoteAddr().(*sctp.Addr))
}

// SCTPLocalAddr returns the local addresses of an association.
func (c *Conn) SCTPLocalAddr(id int) (*SCTPAddr, error) {
	return c.addrs(func(conn *sctp.Conn) (*sctp.Addr, error) { return conn.LocalAddrs(sctp.AssocID(id)) })
}

// SCTPRemoteAddr returns the addresses of the peer of an association.
func (c *Conn) SCTPRemoteAddr(id int) (*SCTPAddr, error) {
	return c.addrs(func(conn *sctp.Conn) (*sctp.Addr, error) { return conn.RemoteAddrs(sctp.AssocID(id)) })
}

// SCTPGetPrimaryPeerAddr returns the peer address of the primary path.
func (c *Conn) SCTPGetPrimaryPeerAddr() (*SCTPAddr, error) {
	return c.addrs(func(conn *sctp.Conn) (*sctp.Addr, error) {
		ip, err := conn.Primary(0)
		if err != nil {
			return nil, err
		}
		all, err := conn.RemoteAddrs(0)
		if err != nil {
			return nil, err
		}
		all.IPs = append(all.IPs[:0], ip)
		return all, nil
	})
}

func (c *Conn) addrs(read func(*sctp.Conn) (*sctp.Addr, error)) (*SCTPAddr, error) {
	conn := c.open()
	if conn == nil {
		return nil, syscall.EBADF
	}
	addresses, err := read(conn)
	if err != nil {
		return nil, Errno(err)
	}
	return addrOf(addresses), nil
}

// Peel branches an association of a one-to-many socket off.
func (c *Conn) Peel(id int) (*Conn, error) {
	conn := c.open()
	if conn == nil {
		return nil, syscall.EBADF
	}
	branched, err := (&sctp.OneToMany{Socket: conn.Socket}).Peeloff(sctp.AssocID(id))
	if err != nil {
		return nil, Errno(err)
	}
	return &Conn{conn: branched, hostPPID: c.hostPPID}, nil
}

// call performs a call on the connection below.
func (c *Conn) call(do func(*sctp.Conn) error) error {
	conn := c.open()
	if conn == nil {
		return syscall.EBADF
	}
	return Errno(do(conn))
}

// SetDeadline sets the deadline of reads and writes.
func (c *Conn) SetDeadline(t time.Time) error {
	return c.call(func(conn *sctp.Conn) error { return conn.SetDeadline(t) })
}

// SetReadDeadline sets the deadline of reads.
func (c *Conn) SetReadDeadline(t time.Time) error {
	return c.call(func(conn *sctp.Conn) error { return conn.SetReadDeadline(t) })
}

// SetWriteDeadline sets the deadline of writes.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	return c.call(func(conn *sctp.Conn) error { return conn.SetWriteDeadline(t) })
}

// SetReadTimeout sets the limit of each read, which then returns EAGAIN; 0 is none.
func (c *Conn) SetReadTimeout(tv syscall.Timeval) error {
	c.readTimeout.Store(tv.Nano())
	return c.SetReadDeadline(time.Time{})
}

// SetWriteTimeout sets the limit of each write, which then returns EAGAIN; 0 is none.
func (c *Conn) SetWriteTimeout(tv syscall.Timeval) error {
	c.writeTimeout.Store(tv.Nano())
	return c.SetWriteDeadline(time.Time{})
}

// SetNonBlock sets whether reads and writes return EAGAIN instead of waiting.
func (c *Conn) SetNonBlock(nonBlock bool) error {
	return c.call(func(conn *sctp.Conn) error {
		conn.SetNonblock(nonBlock)
		return nil
	})
}

// SyscallConn returns the descriptor; EINVAL if the connection is closed.
func (c *Conn) SyscallConn() (syscall.RawConn, error) {
	conn := c.open()
	if conn == nil {
		return nil, syscall.EINVAL
	}
	return conn.SyscallConn()
}

// SetWriteBuffer sets the size of the send buffer in bytes.
func (c *Conn) SetWriteBuffer(bytes int) error {
	return c.call(func(conn *sctp.Conn) error { return conn.SetWriteBuffer(bytes) })
}

// SetReadBuffer sets the size of the receive buffer in bytes.
func (c *Conn) SetReadBuffer(bytes int) error {
	return c.call(func(conn *sctp.Conn) error { return conn.SetReadBuffer(bytes) })
}

// GetWriteBuffer returns the size of the send buffer in bytes.
func (c *Conn) GetWriteBuffer() (size int, err error) {
	err = c.call(func(conn *sctp.Conn) error {
		size, err = conn.WriteBuffer()
		return err
	})
	return size, err
}

// GetReadBuffer returns the size of the receive buffer in bytes.
func (c *Conn) GetReadBuffer() (size int, err error) {
	err = c.call(func(conn *sctp.Conn) error {
		size, err = conn.ReadBuffer()
		return err
	})
	return size, err
}

// SetInitMsg sets the parameters of the set-up.
func (c *Conn) SetInitMsg(numOstreams, maxInstreams, maxAttempts, maxInitTimeout int) error {
	return c.SetValue(optInitMsg, &InitMsg{
		uint16(numOstreams), uint16(maxInstreams), uint16(maxAttempts), uint16(maxInitTimeout),
	})
}

// SetDefaultSentParam sets the default attributes of messages, with the payload protocol identifier in
// network byte order.
func (c *Conn) SetDefaultSentParam(info *SndRcvInfo) error {
	return c.SetValue(optDefaultSentParam, info)
}

// GetDefaultSentParam returns the default attributes of messages.
func (c *Conn) GetDefaultSentParam() (*SndRcvInfo, error) {
	info := &SndRcvInfo{}
	if err := c.GetValue(optDefaultSentParam, info); err != nil {
		return nil, err
	}
	return info, nil
}

// SubscribeEvents sets the subscriptions, a combination of SCTP_EVENT_DATA_IO and the constants after it.
func (c *Conn) SubscribeEvents(flags int) error {
	var events [eventBits]uint8
	for bit := range events {
		events[bit] = uint8(flags >> bit & 1)
	}
	return c.SetValue(optEvents, &events)
}

// SubscribedEvents returns the subscriptions.
func (c *Conn) SubscribedEvents() (int, error) {
	var events [eventBits]uint8
	if err := c.GetValue(optEvents, &events); err != nil {
		return 0, err
	}
	flags := 0
	for bit, on := range events {
		if on != 0 {
			flags |= 1 << bit
		}
	}
	return flags, nil
}

// SetValue sets an option that is a struct without implicit padding.
func (c *Conn) SetValue(name int, value any) error {
	return c.call(func(conn *sctp.Conn) error { return conn.SetOption(levelSCTP, name, pack(value)) })
}

// GetValue reads an option that is a struct without implicit padding.
func (c *Conn) GetValue(name int, value any) error {
	return c.call(func(conn *sctp.Conn) error {
		read, err := conn.GetOption(levelSCTP, name, pack(value))
		if err == nil {
			unpack(read, value)
		}
		return err
	})
}

func pack(value any) []byte {
	var packed bytes.Buffer
	// Writing to a buffer does not fail, and the structs have fixed sizes.
	_ = binary.Write(&packed, native, value)
	return packed.Bytes()
}

// unpack reads a struct; bytes that are too few leave it as it is.
func unpack(b []byte, value any) {
	_ = binary.Read(bytes.NewReader(b), native, value)
}
