// Package sctp provides SCTP sockets (RFC 9260, RFC 6458) for Go programs on systems without SCTP in the
// kernel, through the Carrick daemon.
//
// A connection is one end of an AF_UNIX socket pair whose other end the daemon has, registered with the
// poller of Go's runtime: goroutines block without occupying threads, deadlines work, and Close wakes
// every blocked call. The package is pure Go, without cgo and without dependencies. Its calls are available
// on Linux.
//
// # One-to-one sockets
//
// [Dial] and [Listen] open associations as a [Conn], which is a [net.Conn]. [Conn.Read] and [Conn.Write]
// pass messages without attributes; [Socket.ReadMsg] and [Socket.WriteMsg] pass stream, payload protocol
// identifier, flags and context as well, and notifications.
//
// # One-to-many sockets
//
// [ListenMany] opens a socket for many associations ([OneToMany]). [OneToMany.WriteMsgTo] sets up an
// association where none exists, and [OneToMany.Peeloff] makes a [Conn] of one.
//
// # Multi-homing
//
// An [Addr] has several IP addresses and one port: "192.0.2.1/198.51.100.1:38412".
//
// # Errors
//
// Calls return [*net.OpError], except for [io.EOF] from reads after the peer has shut down the
// association. The cause, for [errors.Is]:
//
//	net.ErrClosed              the socket was closed by this program
//	os.ErrDeadlineExceeded     the deadline has passed
//	syscall.ECONNRESET         the peer has aborted the association, or the daemon has ended
//	syscall.ECONNREFUSED       the peer has refused the association
//	syscall.ETIMEDOUT          the peer has not answered
//	syscall.EPIPE              the association had ended before a write
//	syscall.ESHUTDOWN          the association was being shut down before a write
//	syscall.ECONNABORTED       the daemon has ended the socket after an invalid frame
//	syscall.EMSGSIZE           the message is larger than the send buffer
//	syscall.EINVAL             the message has no such stream, or invalid flags
//	syscall.ENOPROTOOPT        the daemon has no such option
//	ErrNoDaemon                no daemon answers on the control socket
//
// # The daemon
//
// The control socket is the one of the environment variable CARRICK_DAEMON, else carrick/socket in the
// directory of XDG_RUNTIME_DIR, else /run/carrick/socket.
package sctp
