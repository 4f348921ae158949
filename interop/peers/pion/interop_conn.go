package main

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pion/dtls/v3"
	"github.com/pion/dtls/v3/pkg/crypto/selfsign"
)

const (
	// Bytes of a DTLS 1.2 record beside its payload, with AES-GCM or AES-CCM.
	dtlsOverhead = 13 + 8 + 16
	abortChunk   = 6
)

// UDP socket with one peer, which a server learns from the first packet.
type peerConn struct {
	*net.UDPConn
	mutex  sync.Mutex
	known  chan struct{}
	remote *net.UDPAddr
}

func (c *peerConn) Read(into []byte) (int, error) {
	n, _, err := c.ReadFrom(into)
	return n, err
}

func (c *peerConn) ReadFrom(into []byte) (int, net.Addr, error) {
	for {
		n, from, err := c.ReadFromUDP(into)
		// The peer may not be there yet.
		if errors.Is(err, syscall.ECONNREFUSED) {
			continue
		}
		if err == nil {
			c.learn(from)
		}
		return n, from, err
	}
}

func (c *peerConn) learn(from *net.UDPAddr) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.remote == nil {
		c.remote = from
		close(c.known)
	}
}

func (c *peerConn) Write(packet []byte) (int, error) {
	<-c.known
	return c.WriteToUDP(packet, c.remote)
}

func (c *peerConn) RemoteAddr() net.Addr {
	<-c.known
	return c.remote
}

// Connection that counts packets, and records whether an ABORT was received, which the stack reports
// only to open streams.
type watchedConn struct {
	net.Conn
	aborted atomic.Bool
	// Packets with a checksum of zero (RFC 9653).
	zeroSent, zeroReceived atomic.Int64
}

func hasZeroChecksum(packet []byte) bool {
	return len(packet) >= 12 && string(packet[8:12]) == "\x00\x00\x00\x00"
}

func (c *watchedConn) Read(into []byte) (int, error) {
	n, err := c.Conn.Read(into)
	if n > 12 && into[12] == abortChunk {
		c.aborted.Store(true)
	}
	if err == nil && hasZeroChecksum(into[:n]) {
		c.zeroReceived.Add(1)
	}
	return n, err
}

func (c *watchedConn) Write(packet []byte) (int, error) {
	if hasZeroChecksum(packet) {
		c.zeroSent.Add(1)
	}
	return c.Conn.Write(packet)
}

// Keeps the socket, so that the program ends it.
func (c *watchedConn) Close() error {
	return c.Conn.SetReadDeadline(time.Now())
}

// Opens the socket, and the DTLS session above it.
func openConn(o *testOptions, socket *net.UDPConn) (*watchedConn, error) {
	conn := &peerConn{UDPConn: socket, known: make(chan struct{})}
	if !o.listens {
		conn.learn(net.UDPAddrFromAddrPort(o.remote))
	}
	if !o.overDTLS {
		return &watchedConn{Conn: conn}, nil
	}
	certificate, err := selfsign.GenerateSelfSigned()
	if err != nil {
		return nil, err
	}
	var session *dtls.Conn
	if o.listens {
		// The first packet has the address; the client sends it again.
		if _, _, err = conn.ReadFrom(make([]byte, 1<<16)); err != nil {
			return nil, err
		}
		// As in WebRTC: a ClientHello with use_srtp needs a common profile (RFC 5764, section 4.1.1).
		session, err = dtls.ServerWithOptions(conn, conn.remote, dtls.WithCertificates(certificate),
			dtls.WithSRTPProtectionProfiles(dtls.SRTP_AEAD_AES_128_GCM, dtls.SRTP_AES128_CM_HMAC_SHA1_80),
			dtls.WithClientAuth(dtls.RequireAnyClientCert), dtls.WithExtendedMasterSecret(dtls.RequireExtendedMasterSecret))
	} else {
		session, err = dtls.ClientWithOptions(conn, conn.remote, dtls.WithCertificates(certificate),
			dtls.WithInsecureSkipVerify(true), dtls.WithExtendedMasterSecret(dtls.RequireExtendedMasterSecret))
	}
	if err != nil {
		return nil, err
	}
	return &watchedConn{Conn: session}, session.Handshake()
}
