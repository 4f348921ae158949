//go:build linux

package compat

import (
	"net"
	"os"
	"sync/atomic"
	"syscall"

	sctp "github.com/carrick-sctp/carrick/bindings/go"
)

// Listener has the methods that the listeners of both modules have in common.
type Listener struct {
	listener *sctp.Listener
	options  Options
	stopped  atomic.Bool
}

// Listen accepts associations on an address.
func Listen(network string, local *SCTPAddr, options Options) (*Listener, error) {
	listener, err := options.config(network, local).ListenAddr(networkOf(network), local.core())
	if err != nil {
		return nil, Errno(err)
	}
	return &Listener{listener: listener, options: options}, nil
}

// ListenFile returns the listener of a descriptor, which it duplicates.
func ListenFile(file *os.File, options Options) (*Listener, error) {
	listener, err := sctp.FileListener(file)
	if err != nil {
		return nil, Errno(err)
	}
	return &Listener{listener: listener, options: options}, nil
}

// AcceptConn waits for an association. With an error the result is a closed connection.
func (l *Listener) AcceptConn() (*Conn, error) {
	conn, err := l.listener.AcceptSCTP()
	if err != nil {
		return &Conn{}, Errno(err)
	}
	return &Conn{conn: conn, hostPPID: l.options.HostPPID, handler: l.options.Handler}, nil
}

// Core returns the listener below.
func (l *Listener) Core() *sctp.Listener { return l.listener }

// Addr returns the address of the listener.
func (l *Listener) Addr() net.Addr { return addrOf(l.listener.Addr().(*sctp.Addr)) }

// Close closes the listener. Accept returns.
func (l *Listener) Close() error {
	l.stopped.Store(true)
	return Errno(l.listener.Close())
}

// Stopped returns whether the listener is closed.
func (l *Listener) Stopped() bool { return l.stopped.Load() }

// SyscallConn returns the descriptor; EINVAL if the listener is closed.
func (l *Listener) SyscallConn() (syscall.RawConn, error) {
	if l.Stopped() {
		return nil, syscall.EINVAL
	}
	return l.listener.SyscallConn()
}

// SCTPBind binds a descriptor of the daemon, or with flags SCTP_BINDX_REM_ADDR removes addresses.
func SCTPBind(fd int, addr *SCTPAddr, flags int) error {
	const add, remove = 1, 2
	if addr == nil || flags != add && flags != remove {
		return syscall.EINVAL
	}
	return Errno(sctp.BindFD(fd, addr.core(), flags == remove))
}

// SCTPConnect sets up an association on a descriptor of the daemon.
func SCTPConnect(fd int, addr *SCTPAddr) (int, error) {
	if addr == nil {
		return 0, errNoAddress
	}
	id, err := sctp.ConnectFD(fd, addr.core())
	return int(id), Errno(err)
}
