//go:build linux

package sctp

import (
	"net"
	"os"
	"syscall"
)

// FDConn returns the connection of a descriptor of an association, which it owns.
func FDConn(fd int) (*Conn, error) {
	s, err := adopt(fd)
	if err != nil {
		return nil, err
	}
	return newConn(s), nil
}

// BindFD binds a descriptor of the daemon to an address, or adds addresses to it if it is bound; with
// remove it removes them: sctp_bindx (RFC 6458, section 9.1).
func BindFD(fd int, local *Addr, remove bool) error {
	return withFD(fd, "bindx", func(s *Socket, _ bool) error {
		if remove {
			return s.bindx(OptBindxRemove, local.IPs)
		}
		err := s.bind(local)
		if err == nil || !isBound(s) {
			return err
		}
		return s.bindx(OptBindxAdd, local.IPs)
	})
}

func isBound(s *Socket) bool {
	answer, _, err := s.call(&request{code: requestLocalAddress})
	if err != nil {
		return false
	}
	bound, _, _, err := sockaddr(answer.value)
	return err == nil && bound.Port() != 0
}

// ConnectFD sets up an association on a descriptor of the daemon: sctp_connectx (RFC 6458, section 9.9).
// It waits unless the descriptor is non-blocking.
func ConnectFD(fd int, remote *Addr) (AssocID, error) {
	var id AssocID
	err := withFD(fd, "connect", func(s *Socket, nonblocking bool) error {
		packed, err := remote.pack(s.family(), remote.Port)
		if err != nil {
			return err
		}
		s.SetNonblock(nonblocking)
		err = s.waitConnected(&request{code: requestConnect, first: packed})
		if err == syscall.EAGAIN {
			err = syscall.EINPROGRESS
		}
		if status, failed := s.Status(0); failed == nil {
			id = status.AssocID
		}
		return err
	})
	return id, err
}

// withFD calls a function with the socket of a descriptor, whose mode stays as it is.
func withFD(fd int, op string, call func(s *Socket, nonblocking bool) error) error {
	flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFL, 0)
	if errno != 0 {
		return &net.OpError{Op: op, Net: "sctp", Err: os.NewSyscallError("fcntl", errno)}
	}
	number, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_DUPFD_CLOEXEC, 0)
	if errno != 0 {
		return &net.OpError{Op: op, Net: "sctp", Err: os.NewSyscallError("fcntl", errno)}
	}
	s, err := adopt(int(number))
	if err != nil {
		return err
	}
	nonblocking := flags&syscall.O_NONBLOCK != 0
	failed := s.opError(op, call(s, nonblocking))
	s.Close()
	if !nonblocking {
		syscall.SetNonblock(fd, false)
	}
	return failed
}
