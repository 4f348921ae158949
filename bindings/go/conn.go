//go:build linux

package sctp

import (
	"context"
	"net"
	"os"
	"syscall"
	"time"
)

// Config has the parameters of sockets. The zero value has the defaults of the daemon.
type Config struct {
	// Daemon is the path of the daemon's control socket; "" is the one of the environment.
	Daemon string
	// LocalAddr is the address of sockets that connect; nil is a port of the daemon's choice on all
	// addresses of the host.
	LocalAddr *Addr
	// Init has the parameters of the set-up; zero fields have the daemon's defaults.
	Init InitMsg
	// Events has the notifications to subscribe to.
	Events []NotificationType
	// Control is called after the socket is created and before it is bound, for its options.
	Control func(*Socket) error
}

// Conn is an association on a one-to-one socket. It implements [net.Conn].
type Conn struct{ *Socket }

var _ net.Conn = (*Conn)(nil)

// Dial connects to a peer with the default parameters: "192.0.2.1/198.51.100.1:38412". Networks are
// "sctp", "sctp4" and "sctp6".
func Dial(network, address string) (*Conn, error) {
	return DialContext(context.Background(), network, address)
}

// DialContext connects to a peer with the default parameters. The end of the context cancels the set-up.
func DialContext(ctx context.Context, network, address string) (*Conn, error) {
	return new(Config).DialContext(ctx, network, address)
}

// DialContext connects to a peer. The end of the context cancels the set-up.
func (c *Config) DialContext(ctx context.Context, network, address string) (*Conn, error) {
	remote, err := resolve(ctx, network, address)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	return c.DialAddr(ctx, network, remote)
}

// DialAddr connects to a peer at several addresses: sctp_connectx (RFC 6458, section 9.9).
func (c *Config) DialAddr(ctx context.Context, network string, remote *Addr) (*Conn, error) {
	if remote == nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: &net.AddrError{Err: "missing address"}}
	}
	s, err := c.open(network, sockStream, c.LocalAddr, remote)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Source: source(c.LocalAddr), Addr: remote, Err: err}
	}
	if err := s.connect(ctx, remote); err != nil {
		failed := s.opError("dial", err)
		s.Close()
		return nil, failed
	}
	return newConn(s), nil
}

func source(local *Addr) net.Addr {
	if local == nil {
		return nil
	}
	return local
}

// open creates a socket, configures it and binds it if local is not nil.
func (c *Config) open(network string, kind int32, local, remote *Addr) (*Socket, error) {
	family, only6, err := family(network, local, remote)
	if err != nil {
		return nil, err
	}
	s, err := openSocket(c, network, kind, family)
	if err != nil {
		return nil, err
	}
	s.remote = remote
	if err := c.configure(s, only6, local, remote == nil); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (c *Config) configure(s *Socket, only6 bool, local *Addr, listens bool) error {
	if listens {
		if err := s.setInt(levelSocket, optionReuseAddr, 1); err != nil {
			return err
		}
	}
	if only6 {
		if err := s.setInt(levelIPv6, optionV6Only, 1); err != nil {
			return err
		}
	}
	if c.Init != (InitMsg{}) {
		if err := s.setValue(OptInitMsg, &c.Init); err != nil {
			return err
		}
	}
	if err := s.subscribe(c.Events, true); err != nil {
		return err
	}
	if c.Control != nil {
		if err := c.Control(s); err != nil {
			return err
		}
	}
	if local == nil {
		return nil
	}
	return s.bind(local)
}

// family returns the address family of the socket.
func (s *Socket) family() int32 {
	if s.describe().has(propertyInet6) {
		return afInet6
	}
	return afInet
}

// bind binds the socket to its first address and adds the remaining ones.
func (s *Socket) bind(local *Addr) error {
	family := s.family()
	packed, err := local.pack(family, local.Port)
	if err != nil {
		return err
	}
	size := sockaddrIn
	if family == afInet6 {
		size = sockaddrIn6
	}
	if _, _, err := s.call(&request{code: requestBind, first: packed[:size]}); err != nil {
		return os.NewSyscallError("bind", err)
	}
	if len(packed) == size {
		return nil
	}
	port := local.Port
	if port == 0 {
		answer, _, err := s.call(&request{code: requestLocalAddress})
		if err != nil {
			return os.NewSyscallError("getsockname", err)
		}
		bound, _, _, err := sockaddr(answer.value)
		if err != nil {
			return err
		}
		port = int(bound.Port())
	}
	if packed, err = local.pack(family, port); err != nil {
		return err
	}
	return os.NewSyscallError("bind", s.setOption(ProtocolSCTP, OptBindxAdd, packed[size:]))
}

// connect sets up the association and waits for it.
func (s *Socket) connect(ctx context.Context, remote *Addr) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	family := s.family()
	packed, err := remote.pack(family, remote.Port)
	if err != nil {
		return err
	}
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		s.file.SetWriteDeadline(time.Unix(1, 0))
		close(interrupted)
	})
	err = s.waitConnected(&request{code: requestConnect, first: packed})
	if !stop() {
		<-interrupted
		s.file.SetWriteDeadline(time.Time{})
		if err != nil {
			return ctx.Err()
		}
	}
	return err
}

// waitConnected starts the set-up and waits until the daemon makes the descriptor writable.
func (s *Socket) waitConnected(start *request) error {
	started := false
	return s.writeLoop(func(fd int) error {
		if !started {
			// The request is sent here, so that no change of the descriptor after it is missed.
			started = true
			_, attached, err := s.request(start, uintptr(fd))
			closeDescriptor(attached)
			if err == syscall.EINPROGRESS {
				return syscall.EAGAIN
			}
			return err
		}
		answer, _, err := s.request(&request{
			code: requestGetOption, a: levelSocket, b: optionError, first: make([]byte, 4),
		}, uintptr(fd))
		if err != nil {
			return err
		}
		if err := errnoOf(answer); err != nil {
			return err
		}
		if answer.description.has(propertyConnecting) {
			return syscall.EAGAIN
		}
		// The association may have been shut down meanwhile, which reads report.
		return nil
	})
}

// newConn returns the connection of a socket with an association, and keeps its addresses.
func newConn(s *Socket) *Conn {
	s.refresh()
	return &Conn{s}
}

// refresh reads the addresses of the socket.
func (s *Socket) refresh() {
	local, err := s.LocalAddrs(0)
	remote, remoteErr := s.RemoteAddrs(0)
	s.addresses.Lock()
	defer s.addresses.Unlock()
	if err == nil {
		s.local = local
	}
	if remoteErr == nil {
		s.remote = remote
	}
}

// FileConn returns the connection of a descriptor of an association, as another process passes it. It
// duplicates the descriptor.
func FileConn(f *os.File) (*Conn, error) {
	s, err := fileSocket(f)
	if err != nil {
		return nil, err
	}
	return newConn(s), nil
}

// fileSocket returns the socket of a duplicate of a descriptor.
func fileSocket(f *os.File) (*Socket, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd := -1
	var failed error
	err = raw.Control(func(old uintptr) {
		var number uintptr
		var errno syscall.Errno
		number, _, errno = syscall.Syscall(syscall.SYS_FCNTL, old, syscall.F_DUPFD_CLOEXEC, 0)
		fd = int(number)
		if errno != 0 {
			failed = os.NewSyscallError("fcntl", errno)
		}
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return nil, err
	}
	return adopt(fd)
}

// adopt returns the socket of a descriptor, which it owns.
func adopt(fd int) (*Socket, error) {
	s, err := newSocket(clientOf(""), fd, description{}, "sctp")
	if err != nil {
		return nil, err
	}
	if _, _, err := s.call(&request{code: requestDescribe}); err != nil {
		failed := s.opError("file", err)
		s.Close()
		return nil, failed
	}
	return s, nil
}

// LocalAddr returns the local addresses of the association, as they were when it was set up, as an
// [*Addr]. [Socket.LocalAddrs] returns the present ones.
func (c *Conn) LocalAddr() net.Addr { return c.localAddr() }

// RemoteAddr returns the addresses of the peer, as they were when the association was set up, as an
// [*Addr]. [Socket.RemoteAddrs] returns the present ones.
func (c *Conn) RemoteAddr() net.Addr {
	c.addresses.Lock()
	defer c.addresses.Unlock()
	if c.remote == nil {
		return &Addr{}
	}
	return c.remote
}

func (s *Socket) localAddr() net.Addr {
	s.addresses.Lock()
	defer s.addresses.Unlock()
	if s.local == nil {
		return &Addr{}
	}
	return s.local
}

// Read reads a message, without its attributes. Further calls return the rest of a message that is larger
// than b. Notifications are discarded. At the end of the association it returns [io.EOF].
func (c *Conn) Read(b []byte) (int, error) {
	for {
		n, info, err := c.ReadMsg(b)
		if err != nil || !info.IsNotification() {
			return n, err
		}
	}
}

// Write sends a message with the default attributes ([Socket.SetDefaultSendInfo]).
func (c *Conn) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	return c.WriteMsg(b, nil)
}

// CloseWrite shuts down the association gracefully: what was written is delivered, and messages that the
// peer has sent before can be read.
func (c *Conn) CloseWrite() error {
	_, _, err := c.call(&request{code: requestShutdown, a: shutWr})
	return c.opError("close", err)
}

// Abort closes the socket and aborts the association: the peer gets an ABORT, and what was written may be
// lost.
func (c *Conn) Abort() error {
	if err := c.SetLinger(0); err != nil {
		c.Close()
		return err
	}
	return c.Close()
}
