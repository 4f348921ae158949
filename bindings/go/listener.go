//go:build linux

package sctp

import (
	"net"
	"net/netip"
	"os"
	"syscall"
)

// backlog is the limit of associations that wait for Accept. The daemon has a limit as well.
const backlog = 4096

// Listener is a one-to-one socket that accepts associations. It implements [net.Listener].
type Listener struct{ *Socket }

var _ net.Listener = (*Listener)(nil)

// Listen accepts associations on an address with the default parameters: "192.0.2.1/198.51.100.1:38412",
// or ":38412" for all addresses of the host. Port 0 is one of the daemon's choice.
func Listen(network, address string) (*Listener, error) {
	return new(Config).Listen(network, address)
}

// Listen accepts associations on an address. The connections have the options of the listening socket. As in
// package net, the address may have been in use before (SO_REUSEADDR).
func (c *Config) Listen(network, address string) (*Listener, error) {
	local, err := ResolveAddr(network, address)
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: network, Err: err}
	}
	return c.ListenAddr(network, local)
}

// ListenAddr accepts associations on an address; nil is a port of the daemon's choice on all addresses of
// the host.
func (c *Config) ListenAddr(network string, local *Addr) (*Listener, error) {
	s, err := c.listen(network, sockStream, local)
	if err != nil {
		return nil, err
	}
	return &Listener{s}, nil
}

func (c *Config) listen(network string, kind int32, local *Addr) (*Socket, error) {
	s, err := c.open(network, kind, local, nil)
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: network, Addr: source(local), Err: err}
	}
	if _, _, err := s.call(&request{code: requestListen, a: backlog}); err != nil {
		failed := s.opError("listen", err)
		s.Close()
		return nil, failed
	}
	s.refresh()
	return s, nil
}

// FileListener returns the listener of a descriptor, as another process passes it. It duplicates the
// descriptor.
func FileListener(f *os.File) (*Listener, error) {
	s, err := fileSocket(f)
	if err != nil {
		return nil, err
	}
	s.refresh()
	return &Listener{s}, nil
}

// Accept waits for an association. The result is a [*Conn].
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.AcceptSCTP()
	if err != nil {
		return nil, err
	}
	return c, nil
}

// AcceptSCTP waits for an association.
func (l *Listener) AcceptSCTP() (*Conn, error) {
	s, err := l.accept()
	if err != nil {
		return nil, l.opError("accept", err)
	}
	return newConn(s), nil
}

func (l *Listener) accept() (*Socket, error) {
	space := make([]byte, headerSize+descriptionSize+1)
	rights := make([]byte, syscall.CmsgSpace(4))
	var n, fd int
	err := l.readLoop(func(listener int) error {
		if err := checkRoom(); err != nil {
			return err
		}
		received, oobn, _, _, err := syscall.Recvmsg(listener, space, rights, syscall.MSG_DONTWAIT|syscall.MSG_CMSG_CLOEXEC)
		if err != nil {
			return err
		}
		n, fd = received, descriptorOf(rights[:oobn])
		return nil
	})
	if err != nil {
		return nil, err
	}
	if n == 0 {
		if err := l.pendingError(); err != nil {
			return nil, err
		}
		return nil, syscall.EINVAL
	}
	header, err := decodeHeader(space[:n])
	if err != nil || header.kind != frameAccepted {
		closeDescriptor(fd)
		return nil, syscall.ECONNABORTED
	}
	d, err := decodeDescription(space[headerSize:n])
	if err != nil {
		closeDescriptor(fd)
		return nil, syscall.ECONNABORTED
	}
	if fd < 0 {
		// Another goroutine has taken the room meanwhile.
		return nil, syscall.EMFILE
	}
	s, err := newSocket(l.client, fd, d, l.network)
	if err != nil {
		return nil, err
	}
	if from := header.info.From; from.IsValid() {
		s.remote = addrOf([]netip.AddrPort{from})
	}
	return s, nil
}

// Close closes the socket. Its port is free when Close returns. Blocked calls of Accept return
// [net.ErrClosed].
func (l *Listener) Close() error {
	if err := l.Socket.Close(); err != nil {
		return err
	}
	// The daemon detects that a descriptor was closed before it serves a connection that is newer. Without a
	// daemon the port is free.
	fresh := &client{path: l.client.path}
	if _, _, err := fresh.do(&request{code: requestDescribe}, -1); err == nil {
		fresh.drop()
	}
	return nil
}

// Addr returns the address of the listener as an [*Addr], with its port.
func (l *Listener) Addr() net.Addr { return l.localAddr() }
