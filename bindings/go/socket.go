//go:build linux

package sctp

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	sockStream    = 1
	sockSeqpacket = 5
	// tailInterval is the time between two attempts to pass the rest of a message whose deadline has
	// expired.
	tailInterval = 5 * time.Millisecond
)

// Socket is the part that sockets of both styles have in common: options, addresses, deadlines, and
// messages with their attributes. Its methods may be called by several goroutines at once.
type Socket struct {
	client  *client
	file    *os.File
	raw     syscall.RawConn
	network string
	closed  atomic.Bool
	// nonblocking makes reads and writes return EAGAIN instead of waiting.
	nonblocking atomic.Bool

	// addresses has the addresses of the errors, which also LocalAddr and RemoteAddr return.
	addresses     sync.Mutex
	local, remote *Addr

	state       sync.Mutex
	description description

	reading sync.Mutex
	// pending is a frame of which a part has been read.
	pending *frame
	// failure is an error that followed a part of a message.
	failure error

	// incoming is held while a frame is read, and while the daemon takes frames from the descriptor and
	// passes them again (sctp_peeloff).
	incoming sync.Mutex

	// sending is held while a message is passed, so that its frames follow each other.
	sending sync.Mutex
	// tail has the frames of a message that has begun and whose deadline has expired.
	tail      [][]byte
	tailMutex sync.Mutex
}

// frame is a frame of the daemon.
type frame struct {
	header frameHeader
	space  []byte
	// body is the part of the payload that has not been read.
	body []byte
}

var spaces = sync.Pool{New: func() any {
	space := make([]byte, maxFrame+1)
	return &space
}}

func (f *frame) release() {
	space := f.space
	f.space, f.body = nil, nil
	spaces.Put(&space)
}

// newSocket returns the socket of a descriptor, which it owns.
func newSocket(c *client, fd int, d description, network string) (*Socket, error) {
	syscall.CloseOnExec(fd)
	if err := syscall.SetNonblock(fd, true); err != nil {
		syscall.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	file := os.NewFile(uintptr(fd), "sctp")
	raw, err := file.SyscallConn()
	if err != nil {
		file.Close()
		return nil, err
	}
	return &Socket{client: c, file: file, raw: raw, network: network, description: d}, nil
}

// openSocket creates a socket at the daemon.
func openSocket(config *Config, network string, kind, family int32) (*Socket, error) {
	c := clientOf(config.Daemon)
	fd, d, err := c.openSocket(family, kind)
	if err != nil {
		return nil, err
	}
	return newSocket(c, fd, d, network)
}

// opError returns the error of a call.
func (s *Socket) opError(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	if s.closed.Load() {
		err = net.ErrClosed
	}
	if errno, ok := err.(syscall.Errno); ok {
		err = os.NewSyscallError(op, errno)
	}
	s.addresses.Lock()
	defer s.addresses.Unlock()
	failed := &net.OpError{Op: op, Net: s.network, Err: err}
	if s.local != nil {
		failed.Source = s.local
	}
	if s.remote != nil {
		failed.Addr = s.remote
	}
	return failed
}

func (s *Socket) describe() description {
	s.state.Lock()
	defer s.state.Unlock()
	return s.description
}

func (s *Socket) setDescription(d description) {
	s.state.Lock()
	defer s.state.Unlock()
	s.description = d
}

// request performs a request on a descriptor number that is held open.
func (s *Socket) request(r *request, fd uintptr) (reply, int, error) {
	answer, attached, err := s.client.call(r, int(fd))
	if answer.description != (description{}) {
		s.setDescription(answer.description)
	}
	return answer, attached, err
}

// call performs a request.
func (s *Socket) call(r *request) (reply, int, error) {
	var answer reply
	attached := -1
	var failed error
	err := s.raw.Control(func(fd uintptr) { answer, attached, failed = s.request(r, fd) })
	if err != nil {
		return reply{}, -1, s.closedError(err)
	}
	return answer, attached, failed
}

func (s *Socket) closedError(err error) error {
	if s.closed.Load() {
		return net.ErrClosed
	}
	return err
}

// Close closes the socket. Blocked calls of other goroutines return [net.ErrClosed]. An association is
// shut down gracefully: the daemon delivers what was written. As in Linux, messages that were not read
// abort it instead, and so does a linger time of 0 ([Socket.SetLinger]).
func (s *Socket) Close() error {
	if s.closed.Swap(true) {
		return s.opError("close", net.ErrClosed)
	}
	if err := s.file.Close(); err != nil {
		return &net.OpError{Op: "close", Net: s.network, Err: err}
	}
	return nil
}

// SetDeadline sets the deadline of reads and writes. A zero time is none.
func (s *Socket) SetDeadline(t time.Time) error {
	return s.opError("set", s.file.SetDeadline(t))
}

// SetReadDeadline sets the deadline of reads and of Accept.
func (s *Socket) SetReadDeadline(t time.Time) error {
	return s.opError("set", s.file.SetReadDeadline(t))
}

// SetWriteDeadline sets the deadline of writes. A message of more than 64 KiB of which a part has been
// passed to the daemon when the deadline expires is sent nevertheless: the rest follows in the
// background, before other messages.
func (s *Socket) SetWriteDeadline(t time.Time) error {
	return s.opError("set", s.file.SetWriteDeadline(t))
}

// SetNonblock sets whether reads, writes and Accept return [syscall.EAGAIN] instead of waiting.
func (s *Socket) SetNonblock(nonblock bool) { s.nonblocking.Store(nonblock) }

// SyscallConn returns the descriptor, which is one end of an AF_UNIX socket pair: it can be polled.
// [Socket.SetOption] sets options of SCTP, which system calls on the descriptor do not.
func (s *Socket) SyscallConn() (syscall.RawConn, error) { return s.raw, nil }

// readLoop calls receive, which does not block, until it returns another error than EAGAIN.
func (s *Socket) readLoop(receive func(fd int) error) error {
	var failed error
	err := s.raw.Read(func(fd uintptr) bool {
		failed = retried(func() error { return receive(int(fd)) })
		return failed != syscall.EAGAIN || s.nonblocking.Load()
	})
	if err != nil {
		return s.closedError(err)
	}
	return failed
}

// writeLoop is readLoop for writes.
func (s *Socket) writeLoop(send func(fd int) error) error {
	var failed error
	err := s.raw.Write(func(fd uintptr) bool {
		failed = retried(func() error { return send(int(fd)) })
		return failed != syscall.EAGAIN || s.nonblocking.Load()
	})
	if err != nil {
		return s.closedError(err)
	}
	return failed
}

func retried(call func() error) error {
	for {
		if err := call(); err != syscall.EINTR {
			return err
		}
	}
}

// pendingError returns and clears the pending error of the socket: ECONNRESET if the daemon has ended.
func (s *Socket) pendingError() error {
	answer, _, err := s.call(&request{code: requestGetOption, a: levelSocket, b: optionError, first: make([]byte, 4)})
	if err != nil {
		return err
	}
	return errnoOf(answer)
}

// errnoOf returns the error of a reply with SO_ERROR.
func errnoOf(answer reply) error {
	if len(answer.value) < 4 {
		return errMalformed
	}
	if errno := native.Uint32(answer.value); errno != 0 {
		return syscall.Errno(errno)
	}
	return nil
}

// receive returns the next frame with a message or notification.
func (s *Socket) receive() (*frame, error) {
	for {
		var received frame
		err := s.readLoop(func(fd int) error {
			s.incoming.Lock()
			defer s.incoming.Unlock()
			var err error
			received, err = readFrame(fd)
			return err
		})
		switch {
		case err == syscall.ECONNRESET:
			// The error of the pair is reported once; what it had before can be read.
			if err := s.pendingError(); err != nil {
				return nil, err
			}
			continue
		case err != nil:
			return nil, err
		case len(received.body) == 0:
			received.release()
			// The end of an association, or of the daemon.
			if err := s.pendingError(); err != nil {
				return nil, err
			}
			return nil, io.EOF
		}
		received.header, err = decodeHeader(received.body)
		if err != nil || len(received.body) > maxFrame {
			received.release()
			return nil, syscall.ECONNABORTED
		}
		switch received.header.kind {
		case frameMessage:
			received.body = received.body[headerSize:]
			return &received, nil
		case frameFailed:
			received.release()
			if err := s.pendingError(); err != nil {
				return nil, err
			}
		case frameAccepted:
			received.release()
			return nil, syscall.ENOTCONN
		default:
			received.release()
			return nil, syscall.ECONNABORTED
		}
	}
}

// readFrame reads a frame whose header is not decoded. Without bytes it is the end.
func readFrame(fd int) (frame, error) {
	space := spaces.Get().(*[]byte)
	n, _, _, _, err := syscall.Recvmsg(fd, *space, nil, syscall.MSG_DONTWAIT)
	if err != nil {
		spaces.Put(space)
		return frame{}, err
	}
	return frame{space: *space, body: (*space)[:n]}, nil
}

// continues returns whether next has a further part of the message of h.
func (h *frameHeader) continues(next *frameHeader) bool {
	return !h.isNotification && !next.isNotification && h.info.Stream == next.info.Stream &&
		h.info.SSN == next.info.SSN && h.info.Flags == next.info.Flags && h.info.AssocID == next.info.AssocID
}

// ReadMsg reads a message, or a notification ([RcvInfo.IsNotification], [ParseNotification]), and returns
// the number of bytes. Further calls return the rest of a message that is larger than b; [RcvInfo.EOR]
// is set with its end. Parts of a message that arrive one by one are waited for until b is full; of a
// message of which a part was read when the deadline expires, that part is returned.
func (s *Socket) ReadMsg(b []byte) (int, RcvInfo, error) {
	n, info, err := s.readMsg(b)
	return n, info, s.opError("read", err)
}

func (s *Socket) readMsg(b []byte) (int, RcvInfo, error) {
	if len(b) == 0 {
		return 0, RcvInfo{}, nil
	}
	s.reading.Lock()
	defer s.reading.Unlock()
	if s.closed.Load() {
		return 0, RcvInfo{}, net.ErrClosed
	}
	if err := s.failure; err != nil {
		s.failure = nil
		return 0, RcvInfo{}, err
	}
	current := s.pending
	s.pending = nil
	if current == nil {
		var err error
		if current, err = s.receive(); err != nil {
			return 0, RcvInfo{}, err
		}
	}
	n := 0
	info := current.header.info
	info.notification = current.header.isNotification
	for {
		copied := copy(b[n:], current.body)
		n += copied
		if copied < len(current.body) {
			current.body = current.body[copied:]
			s.pending = current
			return n, info, nil
		}
		header := current.header
		current.release()
		info.EOR = header.isEnd
		if info.EOR || n == len(b) {
			return n, info, nil
		}
		next, err := s.receive()
		if err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) && err != syscall.EAGAIN {
				s.failure = err
			}
			return n, info, nil
		}
		if !header.continues(&next.header) {
			s.pending = next
			return n, info, nil
		}
		current = next
	}
}

// WriteMsg sends a message with attributes; nil stands for those of [Socket.SetDefaultSendInfo]. It waits
// for room in the send buffer of the association.
func (s *Socket) WriteMsg(b []byte, info *SndInfo) (int, error) {
	n, err := s.writeMsg(b, info, nil)
	return n, s.opError("write", err)
}

func (s *Socket) writeMsg(b []byte, info *SndInfo, address []byte) (int, error) {
	if s.closed.Load() {
		return 0, net.ErrClosed
	}
	control := appendControl(nil, info)
	s.sending.Lock()
	defer s.sending.Unlock()
	if address == nil && s.describe().passesInBand(len(b), info) {
		return s.sendInBand(b, control)
	}
	return s.sendByRequest(b, control, address)
}

// passesInBand returns whether a message passes in frames on the pair: everything for which it could be
// refused is known not to apply.
func (d description) passesInBand(size int, info *SndInfo) bool {
	if !d.has(propertyEstablished) || d.has(propertyWriteClosed) || d.has(propertyOneToMany) ||
		size == 0 || int64(size) > int64(d.maxMessage) {
		return false
	}
	if info == nil {
		return !d.has(propertyNoDefaultStream)
	}
	return info.Stream < d.streams && info.PR.Policy == PRNone && info.Flags&^(Unordered|SackImmediately) == 0
}

// sendInBand sends a message in frames. Frames of one message follow each other.
func (s *Socket) sendInBand(b, control []byte) (int, error) {
	space := spaces.Get().(*[]byte)
	defer spaces.Put(space)
	header := frameHeader{kind: frameSend, control: uint16(len(control))}
	next := func(done int) ([]byte, int) {
		end := min(done+maxPayload, len(b))
		header.isEnd = end == len(b)
		out := header.append((*space)[:0])
		if done == 0 {
			out = append(out, control...)
		}
		header.control = 0
		return append(out, b[done:end]...), end
	}
	out, end := next(0)
	begun := false
	err := s.writeLoop(func(fd int) error {
		s.tailMutex.Lock()
		defer s.tailMutex.Unlock()
		if !begun {
			if err := s.flushTail(fd); err != nil {
				return err
			}
		}
		for {
			if err := sendFrame(fd, out); err != nil {
				return err
			}
			begun = true
			if end == len(b) {
				return nil
			}
			out, end = next(end)
		}
	})
	switch {
	case err == nil:
		return len(b), nil
	case err == syscall.EPIPE || err == syscall.ECONNRESET:
		return 0, s.writeError()
	case begun && (err == syscall.EAGAIN || errors.Is(err, os.ErrDeadlineExceeded)):
		s.keepTail(out, end, len(b), next)
		return len(b), nil
	}
	return 0, err
}

// writeError returns the error of a message that the pair has refused: the pending error of the socket if
// the association has ended.
func (s *Socket) writeError() error {
	if err := s.pendingError(); err != nil {
		return err
	}
	return syscall.EPIPE
}

func sendFrame(fd int, out []byte) error {
	_, err := syscall.SendmsgN(fd, out, nil, nil, syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL)
	return err
}

// keepTail keeps the frames of a message that has begun, and passes them in the background.
func (s *Socket) keepTail(out []byte, end, size int, next func(int) ([]byte, int)) {
	s.tailMutex.Lock()
	defer s.tailMutex.Unlock()
	for {
		s.tail = append(s.tail, append([]byte(nil), out...))
		if end == size {
			break
		}
		out, end = next(end)
	}
	go func() {
		for {
			err := error(syscall.EAGAIN)
			closed := s.raw.Control(func(fd uintptr) {
				s.tailMutex.Lock()
				defer s.tailMutex.Unlock()
				err = s.flushTail(int(fd))
			})
			if closed != nil || err != syscall.EAGAIN && err != syscall.EINTR {
				return
			}
			time.Sleep(tailInterval)
		}
	}()
}

// flushTail sends the rest of a message that has begun.
func (s *Socket) flushTail(fd int) error {
	for len(s.tail) > 0 {
		if err := sendFrame(fd, s.tail[0]); err != nil {
			if err != syscall.EAGAIN && err != syscall.EINTR {
				s.tail = nil
			}
			return err
		}
		s.tail = s.tail[1:]
	}
	return nil
}

func (s *Socket) sendByRequest(b, control, address []byte) (int, error) {
	if len(b) > maxRequest-overhead {
		return 0, syscall.EMSGSIZE
	}
	first := append(append([]byte(nil), address...), control...)
	send := &request{code: requestSend, b: int32(len(address)), first: first, second: b}
	var answer reply
	err := s.writeLoop(func(fd int) error {
		s.tailMutex.Lock()
		defer s.tailMutex.Unlock()
		if err := s.flushTail(fd); err != nil {
			return err
		}
		var err error
		answer, _, err = s.request(send, uintptr(fd))
		return err
	})
	if err != nil {
		return 0, err
	}
	return int(answer.result), nil
}

// HasSndRcv returns whether SCTP_SNDRCV is subscribed to ([DataIOType]). Attributes of messages are
// returned nevertheless.
func (s *Socket) HasSndRcv() bool { return s.describe().has(propertySndRcv) }
