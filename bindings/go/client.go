//go:build linux

package sctp

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// DaemonVariable is the environment variable with the path of the daemon's control socket.
const DaemonVariable = "CARRICK_DAEMON"

// ErrNoDaemon is the error of calls that open a socket where no daemon answers: start one with
// "carrick daemon", or set CARRICK_DAEMON to its control socket.
var ErrNoDaemon = errors.New("no Carrick daemon answers on its control socket")

const (
	systemSocket = "/run/carrick/socket"
	// requestTimeout is the limit for the reply to a request. The daemon never blocks.
	requestTimeout = 30 * time.Second
	// controlBuffer is the send buffer of the connection in bytes, which Linux doubles.
	controlBuffer = 212992
	// overhead is the limit of a request without its message in bytes.
	overhead = 4096
)

// client is a connection to the daemon. It has one request in flight.
type client struct {
	path string

	mu     sync.Mutex
	conn   *net.UnixConn
	out    []byte
	in     []byte
	rights []byte
}

var (
	clientsMu sync.Mutex
	clients   = map[string]*client{}
)

// clientOf returns the connection to the daemon of a control socket; "" is the default one.
func clientOf(path string) *client {
	if path == "" {
		path = defaultPath()
	}
	clientsMu.Lock()
	defer clientsMu.Unlock()
	known := clients[path]
	if known == nil {
		known = &client{path: path}
		clients[path] = known
	}
	return known
}

func defaultPath() string {
	if path := os.Getenv(DaemonVariable); path != "" {
		return path
	}
	if directory := os.Getenv("XDG_RUNTIME_DIR"); directory != "" {
		return directory + "/carrick/socket"
	}
	return systemSocket
}

// do sends a request, with the descriptor fd attached if it is not negative. It returns the reply and the
// descriptor that is attached to the reply, or -1. The error is that of the connection.
func (c *client) do(r *request, fd int) (reply, int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		if answer, attached, err := c.exchange(r, fd); err == nil {
			return answer, attached, nil
		}
		// The daemon has ended, or has been started again.
		c.drop()
	}
	if err := c.open(); err != nil {
		return reply{}, -1, err
	}
	answer, attached, err := c.exchange(r, fd)
	if err != nil {
		c.drop()
	}
	return answer, attached, err
}

func (c *client) drop() {
	c.conn.Close()
	c.conn = nil
}

func (c *client) open() error {
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: c.path, Net: "unixpacket"})
	if err != nil {
		return err
	}
	if err := conn.SetWriteBuffer(controlBuffer); err != nil {
		conn.Close()
		return err
	}
	c.conn = conn
	if c.in == nil {
		c.in = make([]byte, maxReply+1)
		c.rights = make([]byte, syscall.CmsgSpace(4))
	}
	return nil
}

func (c *client) exchange(r *request, fd int) (reply, int, error) {
	if err := c.conn.SetDeadline(time.Now().Add(requestTimeout)); err != nil {
		return reply{}, -1, err
	}
	c.out = r.append(c.out[:0])
	var rights []byte
	if fd >= 0 {
		rights = syscall.UnixRights(fd)
	}
	if _, _, err := c.conn.WriteMsgUnix(c.out, rights, nil); err != nil {
		return reply{}, -1, err
	}
	n, oobn, _, _, err := c.conn.ReadMsgUnix(c.in, c.rights)
	if err != nil {
		return reply{}, -1, err
	}
	attached := descriptorOf(c.rights[:oobn])
	answer, err := decodeReply(c.in[:n])
	if err != nil {
		closeDescriptor(attached)
		return reply{}, -1, err
	}
	answer.value = append([]byte(nil), answer.value...)
	return answer, attached, nil
}

// descriptorOf returns the descriptor of ancillary data of an AF_UNIX socket, or -1.
func descriptorOf(oob []byte) int {
	messages, err := syscall.ParseSocketControlMessage(oob)
	if err != nil {
		return -1
	}
	found := -1
	for i := range messages {
		descriptors, err := syscall.ParseUnixRights(&messages[i])
		if err != nil {
			continue
		}
		for _, fd := range descriptors {
			if found < 0 {
				found = fd
			} else {
				syscall.Close(fd)
			}
		}
	}
	return found
}

func closeDescriptor(fd int) {
	if fd >= 0 {
		syscall.Close(fd)
	}
}

// checkRoom returns an error without room for another descriptor in the process. The kernel drops one that comes with
// a frame or a reply then, and with it the association.
func checkRoom() error {
	fd, _, errno := syscall.RawSyscall(syscall.SYS_EVENTFD2, 0, syscall.O_CLOEXEC, 0)
	if errno != 0 {
		return errno
	}
	return syscall.Close(int(fd))
}

// open creates a socket at the daemon, and returns its descriptor.
func (c *client) openSocket(family, kind int32) (int, description, error) {
	answer, fd, err := c.do(&request{code: requestSocket, a: family, b: kind, c: ProtocolSCTP}, -1)
	if err != nil {
		return -1, description{}, fmt.Errorf("%w %s: %w", ErrNoDaemon, c.path, err)
	}
	if answer.errno != 0 {
		closeDescriptor(fd)
		return -1, description{}, os.NewSyscallError("socket", syscall.Errno(answer.errno))
	}
	if fd < 0 {
		// The kernel drops a descriptor for which the process has no room.
		return -1, description{}, os.NewSyscallError("socket", syscall.EMFILE)
	}
	return fd, answer.description, nil
}

// call performs a request on a descriptor. The error is a syscall.Errno.
func (c *client) call(r *request, fd int) (reply, int, error) {
	answer, attached, err := c.do(r, fd)
	if err != nil {
		// The associations of a daemon that has ended are lost, as those of a peer that was restarted.
		return reply{}, -1, syscall.ECONNRESET
	}
	if errno := syscall.Errno(answer.errno); errno == syscall.ENOTSOCK {
		return reply{}, -1, syscall.ECONNRESET
	} else if errno != 0 {
		return answer, attached, errno
	}
	return answer, attached, nil
}
