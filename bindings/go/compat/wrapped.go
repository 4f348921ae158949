//go:build linux

package compat

import (
	"net"
	"time"
)

// eventDataIO is SCTP_EVENT_DATA_IO of both modules.
const eventDataIO = 1 << 0

// SCTPSndRcvInfoWrappedConn is a connection whose messages have their SndRcvInfo in front, in Linux's
// layout.
type SCTPSndRcvInfoWrappedConn struct{ conn *Conn }

// NewSCTPSndRcvInfoWrappedConn returns the wrapped connection of a connection, which it subscribes to
// SCTP_EVENT_DATA_IO; nil if that fails.
func NewSCTPSndRcvInfoWrappedConn(conn *Conn) *SCTPSndRcvInfoWrappedConn {
	if conn.SubscribeEvents(eventDataIO) != nil {
		return nil
	}
	return &SCTPSndRcvInfoWrappedConn{conn}
}

// Write sends a message behind its SndRcvInfo; EINVAL if b is shorter than that.
func (c *SCTPSndRcvInfoWrappedConn) Write(b []byte) (int, error) { return c.conn.WriteWrapped(b) }

// Read reads a message behind its SndRcvInfo; EINVAL if b is shorter than that.
func (c *SCTPSndRcvInfoWrappedConn) Read(b []byte) (int, error) { return c.conn.ReadWrapped(b) }

// Close closes the connection.
func (c *SCTPSndRcvInfoWrappedConn) Close() error { return c.conn.Close() }

// LocalAddr returns the local addresses.
func (c *SCTPSndRcvInfoWrappedConn) LocalAddr() net.Addr { return c.conn.LocalAddr() }

// RemoteAddr returns the addresses of the peer.
func (c *SCTPSndRcvInfoWrappedConn) RemoteAddr() net.Addr { return c.conn.RemoteAddr() }

// SetDeadline sets the deadline of reads and writes.
func (c *SCTPSndRcvInfoWrappedConn) SetDeadline(t time.Time) error { return c.conn.SetDeadline(t) }

// SetReadDeadline sets the deadline of reads.
func (c *SCTPSndRcvInfoWrappedConn) SetReadDeadline(t time.Time) error {
	return c.conn.SetReadDeadline(t)
}

// SetWriteDeadline sets the deadline of writes.
func (c *SCTPSndRcvInfoWrappedConn) SetWriteDeadline(t time.Time) error {
	return c.conn.SetWriteDeadline(t)
}

// SetWriteBuffer sets the size of the send buffer in bytes.
func (c *SCTPSndRcvInfoWrappedConn) SetWriteBuffer(bytes int) error {
	return c.conn.SetWriteBuffer(bytes)
}

// GetWriteBuffer returns the size of the send buffer in bytes.
func (c *SCTPSndRcvInfoWrappedConn) GetWriteBuffer() (int, error) { return c.conn.GetWriteBuffer() }

// SetReadBuffer sets the size of the receive buffer in bytes.
func (c *SCTPSndRcvInfoWrappedConn) SetReadBuffer(bytes int) error {
	return c.conn.SetReadBuffer(bytes)
}

// GetReadBuffer returns the size of the receive buffer in bytes.
func (c *SCTPSndRcvInfoWrappedConn) GetReadBuffer() (int, error) { return c.conn.GetReadBuffer() }
