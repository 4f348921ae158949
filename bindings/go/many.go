//go:build linux

package sctp

import (
	"net"
	"net/netip"
	"syscall"
)

// OneToMany is a socket with many associations (RFC 6458, section 3). [Socket.ReadMsg] reads from all of
// them; [RcvInfo.AssocID] and [RcvInfo.From] name the association.
type OneToMany struct{ *Socket }

// ListenMany opens a one-to-many socket on an address with the default parameters, and accepts
// associations on it. Notifications of type [AssocChangeType] have to be subscribed to, to learn of
// associations before their first message.
func ListenMany(network, address string) (*OneToMany, error) {
	return new(Config).ListenMany(network, address)
}

// ListenMany opens a one-to-many socket on an address, and accepts associations on it.
func (c *Config) ListenMany(network, address string) (*OneToMany, error) {
	local, err := ResolveAddr(network, address)
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: network, Err: err}
	}
	s, err := c.listen(network, sockSeqpacket, local)
	if err != nil {
		return nil, err
	}
	return &OneToMany{s}, nil
}

// WriteMsgTo sends a message to a peer, and sets up an association where none exists (RFC 6458, section
// 3.1). Messages have up to 252 KiB.
func (m *OneToMany) WriteMsgTo(b []byte, info *SndInfo, to netip.AddrPort) (int, error) {
	address, err := (&Addr{IPs: []netip.Addr{to.Addr()}}).pack(m.family(), int(to.Port()))
	if err != nil {
		return 0, m.opError("write", err)
	}
	n, err := m.writeMsg(b, info, address)
	return n, m.opError("write", err)
}

// Connect starts the set-up of an association with a peer at several addresses, and returns its
// identifier. A notification of type [AssocChangeType] reports the result.
func (m *OneToMany) Connect(to *Addr) (AssocID, error) {
	packed, err := to.pack(m.family(), to.Port)
	if err != nil {
		return 0, m.opError("connect", err)
	}
	answer, attached, err := m.call(&request{code: requestConnect, first: packed})
	closeDescriptor(attached)
	if err != nil && err != syscall.EINPROGRESS {
		return 0, m.opError("connect", err)
	}
	return AssocID(answer.result), nil
}

// ShutdownAssoc shuts down an association gracefully.
func (m *OneToMany) ShutdownAssoc(id AssocID) error {
	_, err := m.WriteMsg(nil, &SndInfo{AssocID: id, Flags: EOF})
	return err
}

// AbortAssoc aborts an association.
func (m *OneToMany) AbortAssoc(id AssocID) error {
	_, err := m.WriteMsg(nil, &SndInfo{AssocID: id, Flags: AbortAssoc})
	return err
}

// Peeloff branches an association off into a separate connection, with its unread messages
// (RFC 6458, section 9.2).
func (m *OneToMany) Peeloff(id AssocID) (*Conn, error) {
	if err := checkRoom(); err != nil {
		return nil, m.opError("peeloff", err)
	}
	m.incoming.Lock()
	_, fd, err := m.call(&request{code: requestPeeloff, a: int32(id)})
	m.incoming.Unlock()
	if err == nil && fd < 0 {
		err = syscall.EMFILE
	}
	if err != nil {
		closeDescriptor(fd)
		return nil, m.opError("peeloff", err)
	}
	s, err := newSocket(m.client, fd, description{}, m.network)
	if err != nil {
		return nil, m.opError("peeloff", err)
	}
	if _, _, err := s.call(&request{code: requestDescribe}); err != nil {
		failed := s.opError("peeloff", err)
		s.Close()
		return nil, failed
	}
	return newConn(s), nil
}

// AssocIDs returns the identifiers of the associations.
func (m *OneToMany) AssocIDs() ([]AssocID, error) {
	value, err := m.GetOption(ProtocolSCTP, OptGetAssocIDList, make([]byte, 64<<10))
	if err != nil || len(value) < 4 {
		return nil, err
	}
	ids := make([]AssocID, 0, native.Uint32(value))
	for at := 4; at+4 <= len(value) && len(ids) < cap(ids); at += 4 {
		ids = append(ids, AssocID(native.Uint32(value[at:])))
	}
	return ids, nil
}

// Addr returns the address of the socket as an [*Addr], with its port.
func (m *OneToMany) Addr() net.Addr { return m.localAddr() }
