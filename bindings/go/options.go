//go:build linux

package sctp

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"time"
)

// addressBuffer is the size of the buffer for lists of addresses in bytes.
const addressBuffer = 16 << 10

// SetOption sets an option with a value in Linux's layout: setsockopt.
func (s *Socket) SetOption(level, name int, value []byte) error {
	return s.opError("setsockopt", s.setOption(level, name, value))
}

// GetOption returns the value of an option in Linux's layout: getsockopt. Association identifiers and
// addresses are read from buffer, whose length is the limit of the value.
func (s *Socket) GetOption(level, name int, buffer []byte) ([]byte, error) {
	value, err := s.getOption(level, name, buffer)
	return value, s.opError("getsockopt", err)
}

func (s *Socket) setOption(level, name int, value []byte) error {
	_, _, err := s.call(&request{code: requestSetOption, a: int32(level), b: int32(name), first: value})
	return err
}

func (s *Socket) getOption(level, name int, buffer []byte) ([]byte, error) {
	answer, _, err := s.call(&request{code: requestGetOption, a: int32(level), b: int32(name), first: buffer})
	return answer.value, err
}

// setInt sets an option that is an int.
func (s *Socket) setInt(level, name, value int) error {
	return s.setOption(level, name, native.AppendUint32(nil, uint32(value)))
}

func (s *Socket) getInt(level, name int) (int, error) {
	value, err := s.getOption(level, name, make([]byte, 4))
	if err == nil && len(value) < 4 {
		err = errMalformed
	}
	if err != nil {
		return 0, err
	}
	return int(int32(native.Uint32(value))), nil
}

// setValue sets an option of SCTP that is a struct of fixed size without implicit padding.
func (s *Socket) setValue(name int, value any) error {
	return s.setOption(ProtocolSCTP, name, pack(value))
}

// getValue reads an option of SCTP, with the fields of value that name an association or address.
func (s *Socket) getValue(name int, value any) error {
	read, err := s.getOption(ProtocolSCTP, name, pack(value))
	if err != nil {
		return err
	}
	if binary.Read(bytes.NewReader(read), native, value) != nil {
		return errMalformed
	}
	return nil
}

func pack(value any) []byte {
	var packed bytes.Buffer
	// Writing to a buffer does not fail, and the structs have fixed sizes.
	_ = binary.Write(&packed, native, value)
	return packed.Bytes()
}

// storage is struct sockaddr_storage.
type storage [128]byte

func storageOf(addr netip.Addr, port uint16) storage {
	var bytes storage
	if addr.IsValid() {
		putSockaddr(bytes[:], netip.AddrPortFrom(addr, port), 0)
	}
	return bytes
}

// peerAddress returns an address of the peer with its port: both together name a path.
func (s *Socket) peerAddress(id AssocID, addr netip.Addr) storage {
	if !addr.IsValid() {
		return storage{}
	}
	var port uint16
	// The option fails without an association.
	if remote, err := s.RemoteAddrs(id); err == nil {
		port = uint16(remote.Port)
	}
	return storageOf(addr, port)
}

func (a *storage) addr() netip.Addr {
	address, _, _, err := sockaddr(a[:])
	if err != nil {
		return netip.Addr{}
	}
	return address.Addr().Unmap()
}

// InitMsg has the parameters of the set-up (RFC 6458, section 8.1.3). Fields that are 0 keep the present
// values.
type InitMsg struct {
	// OutStreams is the number of outbound streams to request.
	OutStreams uint16
	// MaxInStreams is the limit of inbound streams.
	MaxInStreams uint16
	// MaxAttempts is the limit of INIT retransmissions.
	MaxAttempts uint16
	// MaxTimeout is the limit of the RTO of the INIT in milliseconds.
	MaxTimeout uint16
}

// SetInitMsg sets the parameters of the set-up of future associations.
func (s *Socket) SetInitMsg(m InitMsg) error {
	return s.opError("setsockopt", s.setValue(OptInitMsg, &m))
}

// InitMsg returns the parameters of the set-up.
func (s *Socket) InitMsg() (m InitMsg, err error) {
	err = s.opError("getsockopt", s.getValue(OptInitMsg, &m))
	return m, err
}

// RTOInfo has the retransmission timeouts in milliseconds (RFC 6458, section 8.1.1). Fields that are 0
// keep the present values.
type RTOInfo struct {
	AssocID           AssocID
	Initial, Max, Min uint32
}

// SetRTOInfo sets the retransmission timeouts.
func (s *Socket) SetRTOInfo(r RTOInfo) error {
	return s.opError("setsockopt", s.setValue(OptRTOInfo, &r))
}

// RTOInfo returns the retransmission timeouts.
func (s *Socket) RTOInfo(id AssocID) (RTOInfo, error) {
	r := RTOInfo{AssocID: id}
	err := s.opError("getsockopt", s.getValue(OptRTOInfo, &r))
	return r, err
}

// AssocParams has parameters of associations (RFC 6458, section 8.1.2).
type AssocParams struct {
	AssocID AssocID
	// MaxRetrans is the limit of retransmissions (Association.Max.Retrans); 0 keeps the present value.
	MaxRetrans uint16
	// PeerDestinations is the number of addresses of the peer. Read only.
	PeerDestinations uint16
	// PeerRwnd and LocalRwnd are receive windows in bytes. Read only.
	PeerRwnd, LocalRwnd uint32
	// CookieLife is the life of state cookies in milliseconds; 0 keeps the present value.
	CookieLife uint32
}

// SetAssocParams sets parameters of associations.
func (s *Socket) SetAssocParams(p AssocParams) error {
	return s.opError("setsockopt", s.setValue(OptAssocInfo, &p))
}

// AssocParams returns parameters of associations.
func (s *Socket) AssocParams(id AssocID) (AssocParams, error) {
	p := AssocParams{AssocID: id}
	err := s.opError("getsockopt", s.getValue(OptAssocInfo, &p))
	return p, err
}

func (s *Socket) setFlag(name int, on bool) error {
	value := 0
	if on {
		value = 1
	}
	return s.opError("setsockopt", s.setInt(ProtocolSCTP, name, value))
}

// SetNoDelay sets whether small messages are sent without delay (RFC 6458, section 8.1.5).
func (s *Socket) SetNoDelay(on bool) error { return s.setFlag(OptNoDelay, on) }

// NoDelay returns whether small messages are sent without delay.
func (s *Socket) NoDelay() (bool, error) {
	value, err := s.getInt(ProtocolSCTP, OptNoDelay)
	return value != 0, s.opError("getsockopt", err)
}

// SetMaxSeg sets the limit of user data in a DATA chunk in bytes (RFC 6458, section 8.1.16); 0 is none.
func (s *Socket) SetMaxSeg(size int) error {
	return s.opError("setsockopt", s.setInt(ProtocolSCTP, OptMaxSeg, size))
}

// MaxSeg returns the limit of user data in a DATA chunk in bytes.
func (s *Socket) MaxSeg() (int, error) {
	value, err := s.getInt(ProtocolSCTP, OptMaxSeg)
	return value, s.opError("getsockopt", err)
}

// SetDisableFragments sets whether messages that are larger than a packet are refused with
// [syscall.EMSGSIZE] (RFC 6458, section 8.1.11).
func (s *Socket) SetDisableFragments(on bool) error { return s.setFlag(OptDisableFragments, on) }

// SetAutoClose sets the time after which associations of a one-to-many socket without messages are shut
// down, in whole seconds; 0 disables it (RFC 6458, section 8.1.8).
func (s *Socket) SetAutoClose(d time.Duration) error {
	return s.opError("setsockopt", s.setInt(ProtocolSCTP, OptAutoClose, int(d/time.Second)))
}

// SetFragmentInterleave sets whether parts of messages of several associations may be interleaved
// (RFC 6458, section 8.1.20).
func (s *Socket) SetFragmentInterleave(on bool) error { return s.setFlag(OptFragmentInterleave, on) }

// SetReuseAddr sets whether an address that was in use before may be bound (SO_REUSEADDR).
func (s *Socket) SetReuseAddr(on bool) error { return s.setSocketFlag(optionReuseAddr, on) }

// SetReusePort sets whether several sockets may listen on a port (SO_REUSEPORT).
func (s *Socket) SetReusePort(on bool) error { return s.setSocketFlag(optionReusePort, on) }

func (s *Socket) setSocketFlag(name int, on bool) error {
	value := 0
	if on {
		value = 1
	}
	return s.opError("setsockopt", s.setInt(levelSocket, name, value))
}

// SetLinger sets the effect of Close (SO_LINGER): with 0 seconds it aborts the association, with other
// values it shuts it down. A negative value disables the option. Close never waits.
func (s *Socket) SetLinger(seconds int) error {
	return s.opError("setsockopt", s.setOption(levelSocket, optionLinger, lingerValue(seconds)))
}

// lingerValue returns struct linger; a negative time disables it.
func lingerValue(seconds int) []byte {
	on := uint32(1)
	if seconds < 0 {
		on, seconds = 0, 0
	}
	return native.AppendUint32(native.AppendUint32(nil, on), uint32(seconds))
}

// SetReadBuffer sets the size of the receive buffer in bytes, which is doubled as in Linux (SO_RCVBUF).
func (s *Socket) SetReadBuffer(size int) error {
	return s.opError("setsockopt", s.setInt(levelSocket, optionRcvBuf, size))
}

// SetWriteBuffer sets the size of the send buffer in bytes, which is doubled as in Linux (SO_SNDBUF). It
// is the limit of messages as well.
func (s *Socket) SetWriteBuffer(size int) error {
	return s.opError("setsockopt", s.setInt(levelSocket, optionSndBuf, size))
}

// ReadBuffer returns the size of the receive buffer in bytes.
func (s *Socket) ReadBuffer() (int, error) {
	value, err := s.getInt(levelSocket, optionRcvBuf)
	return value, s.opError("getsockopt", err)
}

// WriteBuffer returns the size of the send buffer in bytes.
func (s *Socket) WriteBuffer() (int, error) {
	value, err := s.getInt(levelSocket, optionSndBuf)
	return value, s.opError("getsockopt", err)
}

// Subscribe subscribes to notifications of associations of this socket (RFC 6458, section 6.2.2).
func (s *Socket) Subscribe(types ...NotificationType) error {
	return s.opError("setsockopt", s.subscribe(types, true))
}

// Unsubscribe ends subscriptions.
func (s *Socket) Unsubscribe(types ...NotificationType) error {
	return s.opError("setsockopt", s.subscribe(types, false))
}

func (s *Socket) subscribe(types []NotificationType, on bool) error {
	event := struct {
		AssocID AssocID
		Type    NotificationType
		On      bool
		_       uint8
	}{AssocID: AllAssoc, On: on}
	for _, event.Type = range types {
		if err := s.setValue(OptEvent, &event); err != nil {
			return err
		}
	}
	return nil
}

// SetDefaultSendInfo sets the attributes of messages that are written without attributes (RFC 6458,
// section 8.1.31). Policies of partial reliability are not among them.
func (s *Socket) SetDefaultSendInfo(info SndInfo) error {
	return s.opError("setsockopt", s.setOption(ProtocolSCTP, OptDefaultSndInfo, info.append(nil)))
}

// DefaultSendInfo returns the attributes of messages that are written without attributes.
func (s *Socket) DefaultSendInfo(id AssocID) (SndInfo, error) {
	buffer := (&SndInfo{AssocID: id}).append(nil)
	value, err := s.getOption(ProtocolSCTP, OptDefaultSndInfo, buffer)
	if err == nil && len(value) < 16 {
		err = errMalformed
	}
	if err != nil {
		return SndInfo{}, s.opError("getsockopt", err)
	}
	return SndInfo{
		Stream: native.Uint16(value), Flags: native.Uint16(value[2:]), PPID: binary.BigEndian.Uint32(value[4:]),
		Context: native.Uint32(value[8:]), AssocID: AssocID(native.Uint32(value[12:])),
	}, nil
}

type assocValue struct {
	AssocID AssocID
	Value   uint32
}

// SetContext sets the context of received messages (RFC 6458, section 8.1.25).
func (s *Socket) SetContext(id AssocID, context uint32) error {
	return s.opError("setsockopt", s.setValue(OptContext, &assocValue{id, context}))
}

// SetMaxBurst sets the limit of packets that are sent at once (RFC 6458, section 8.1.24).
func (s *Socket) SetMaxBurst(id AssocID, packets uint32) error {
	return s.opError("setsockopt", s.setValue(OptMaxBurst, &assocValue{id, packets}))
}

// DelayedSack has the parameters of delayed acknowledgements (RFC 6458, section 8.1.19).
type DelayedSack struct {
	AssocID AssocID
	// Delay is in milliseconds, up to 500.
	Delay uint32
	// Frequency is the number of packets that a SACK acknowledges; 1 disables the delay.
	Frequency uint32
}

// SetDelayedSack sets the parameters of delayed acknowledgements.
func (s *Socket) SetDelayedSack(d DelayedSack) error {
	return s.opError("setsockopt", s.setValue(OptDelayedSack, &d))
}

// DelayedSack returns the parameters of delayed acknowledgements.
func (s *Socket) DelayedSack(id AssocID) (DelayedSack, error) {
	d := DelayedSack{AssocID: id}
	err := s.opError("getsockopt", s.getValue(OptDelayedSack, &d))
	return d, err
}

// PeerAddrInfo is the state of a path (RFC 6458, section 8.2.2).
type PeerAddrInfo struct {
	AssocID AssocID
	Addr    netip.Addr
	State   PathState
	// Cwnd is the congestion window in bytes.
	Cwnd uint32
	// SRTT and RTO are in milliseconds.
	SRTT, RTO uint32
	// MTU is the path MTU in bytes.
	MTU uint32
}

type peerAddrInfo struct {
	AssocID              AssocID
	Address              storage
	State                PathState
	Cwnd, SRTT, RTO, MTU uint32
}

func (p *peerAddrInfo) info() PeerAddrInfo {
	return PeerAddrInfo{p.AssocID, p.Address.addr(), p.State, p.Cwnd, p.SRTT, p.RTO, p.MTU}
}

// PeerAddrInfo returns the state of the path to a peer address.
func (s *Socket) PeerAddrInfo(id AssocID, addr netip.Addr) (PeerAddrInfo, error) {
	p := peerAddrInfo{AssocID: id, Address: s.peerAddress(id, addr)}
	err := s.getValue(OptGetPeerAddrInfo, &p)
	return p.info(), s.opError("getsockopt", err)
}

// Status is the status of an association (RFC 6458, section 8.2.1).
type Status struct {
	AssocID AssocID
	State   AssocState
	// Rwnd is the receive window of the peer in bytes.
	Rwnd uint32
	// Unacked and Pending are DATA chunks that wait for a SACK, and messages that wait for the user.
	Unacked, Pending      uint16
	InStreams, OutStreams uint16
	// FragmentationPoint is the size in bytes above which messages are fragmented.
	FragmentationPoint uint32
	Primary            PeerAddrInfo
}

// Status returns the status of an association.
func (s *Socket) Status(id AssocID) (Status, error) {
	var status struct {
		AssocID               AssocID
		State                 AssocState
		Rwnd                  uint32
		Unacked, Pending      uint16
		InStreams, OutStreams uint16
		FragmentationPoint    uint32
		Primary               peerAddrInfo
	}
	status.AssocID = id
	if err := s.getValue(OptStatus, &status); err != nil {
		return Status{}, s.opError("getsockopt", err)
	}
	return Status{
		status.AssocID, status.State, status.Rwnd, status.Unacked, status.Pending, status.InStreams,
		status.OutStreams, status.FragmentationPoint, status.Primary.info(),
	}, nil
}

// PeerAddrParams has parameters of a path, or of all paths if Addr is the zero value (RFC 6458, section
// 8.1.12).
type PeerAddrParams struct {
	AssocID AssocID
	Addr    netip.Addr
	// HeartbeatInterval is in milliseconds.
	HeartbeatInterval uint32
	// PathMaxRetrans is the limit of retransmissions; 0 keeps the present value.
	PathMaxRetrans uint16
	// PathMTU is in bytes.
	PathMTU uint32
	// SackDelay is in milliseconds.
	SackDelay uint32
	// Flags is a combination of [HeartbeatEnable] and the constants after it.
	Flags uint32
}

type peerAddrParams struct {
	AssocID           AssocID
	Address           storage
	HeartbeatInterval uint32
	PathMaxRetrans    uint16
	PathMTU           uint32
	SackDelay         uint32
	Flags             uint32
	_                 [6]byte
}

// SetPeerAddrParams sets parameters of paths.
func (s *Socket) SetPeerAddrParams(p PeerAddrParams) error {
	return s.opError("setsockopt", s.setValue(OptPeerAddrParams, &peerAddrParams{
		AssocID: p.AssocID, Address: s.peerAddress(p.AssocID, p.Addr), HeartbeatInterval: p.HeartbeatInterval,
		PathMaxRetrans: p.PathMaxRetrans, PathMTU: p.PathMTU, SackDelay: p.SackDelay, Flags: p.Flags,
	}))
}

// PeerAddrParams returns parameters of a path, or of all paths if addr is the zero value.
func (s *Socket) PeerAddrParams(id AssocID, addr netip.Addr) (PeerAddrParams, error) {
	p := peerAddrParams{AssocID: id, Address: s.peerAddress(id, addr)}
	err := s.getValue(OptPeerAddrParams, &p)
	return PeerAddrParams{
		p.AssocID, p.Address.addr(), p.HeartbeatInterval, p.PathMaxRetrans, p.PathMTU, p.SackDelay, p.Flags,
	}, s.opError("getsockopt", err)
}

type primary struct {
	AssocID AssocID
	Address storage
}

// SetPrimary selects the primary path by its peer address (RFC 6458, section 8.1.9).
func (s *Socket) SetPrimary(id AssocID, addr netip.Addr) error {
	return s.opError("setsockopt", s.setValue(OptPrimaryAddr, &primary{id, s.peerAddress(id, addr)}))
}

// Primary returns the peer address of the primary path.
func (s *Socket) Primary(id AssocID) (netip.Addr, error) {
	p := primary{AssocID: id}
	err := s.getValue(OptPrimaryAddr, &p)
	return p.Address.addr(), s.opError("getsockopt", err)
}

// SetPeerPrimary requests that the peer uses a local address as its primary path (RFC 6458, section 8.3.1).
func (s *Socket) SetPeerPrimary(id AssocID, addr netip.Addr) error {
	return s.opError("setsockopt", s.setValue(OptSetPeerPrimaryAddr, &primary{id, storageOf(addr, 0)}))
}

// AddAddrs adds local addresses: sctp_bindx (RFC 6458, section 9.1). The port is that of the socket.
func (s *Socket) AddAddrs(addrs ...netip.Addr) error {
	return s.opError("bindx", s.bindx(OptBindxAdd, addrs))
}

// RemoveAddrs removes local addresses.
func (s *Socket) RemoveAddrs(addrs ...netip.Addr) error {
	return s.opError("bindx", s.bindx(OptBindxRemove, addrs))
}

func (s *Socket) bindx(name int, addrs []netip.Addr) error {
	if len(addrs) == 0 {
		return nil
	}
	answer, _, err := s.call(&request{code: requestLocalAddress})
	if err != nil {
		return err
	}
	bound, _, _, err := sockaddr(answer.value)
	if err != nil {
		return err
	}
	packed, err := (&Addr{IPs: addrs}).pack(s.family(), int(bound.Port()))
	if err != nil {
		return err
	}
	return s.setOption(ProtocolSCTP, name, packed)
}

// LocalAddrs returns the local addresses of an association, or of the socket (RFC 6458, section 9.5).
func (s *Socket) LocalAddrs(id AssocID) (*Addr, error) { return s.addrs(OptGetLocalAddrs, id) }

// RemoteAddrs returns the addresses of the peer (RFC 6458, section 9.3).
func (s *Socket) RemoteAddrs(id AssocID) (*Addr, error) { return s.addrs(OptGetPeerAddrs, id) }

func (s *Socket) addrs(name int, id AssocID) (*Addr, error) {
	buffer := make([]byte, addressBuffer)
	native.PutUint32(buffer, uint32(id))
	value, err := s.getOption(ProtocolSCTP, name, buffer)
	if err == nil && len(value) < 8 {
		err = errMalformed
	}
	if err != nil {
		return nil, s.opError("getsockopt", err)
	}
	list, err := sockaddrs(value[8:])
	if err != nil {
		return nil, s.opError("getsockopt", err)
	}
	return addrOf(list), nil
}

// SetEncapsulationPort sets the UDP port of peers (RFC 6951, section 6.1).
func (s *Socket) SetEncapsulationPort(id AssocID, port uint16) error {
	value := struct {
		AssocID AssocID
		_       uint32
		Address storage
		Port    [2]byte
		_       [6]byte
	}{AssocID: id}
	binary.BigEndian.PutUint16(value.Port[:], port)
	return s.opError("setsockopt", s.setValue(OptRemoteUDPEncapsPort, &value))
}

// Requests of both sides that [Socket.EnableStreamReset] enables.
const (
	EnableResetStreams = 1
	EnableResetAssoc   = 2
	EnableAddStreams   = 4
)

// EnableStreamReset enables requests of this side, and of the peer, to reset or add streams, which are disabled
// at first as on Linux (RFC 6525, section 6.3.1). Flags is a combination of [EnableResetStreams],
// [EnableResetAssoc] and [EnableAddStreams].
func (s *Socket) EnableStreamReset(id AssocID, flags uint32) error {
	return s.opError("setsockopt", s.setValue(OptEnableStreamReset, &assocValue{id, flags}))
}

// AddStreams requests further streams (RFC 6525, section 6.3.4).
func (s *Socket) AddStreams(id AssocID, inbound, outbound uint16) error {
	return s.opError("setsockopt", s.setValue(OptAddStreams, &struct {
		AssocID           AssocID
		Inbound, Outbound uint16
	}{id, inbound, outbound}))
}

// ResetStreams resets streams; none stands for all (RFC 6525, section 6.3.2). Flags is a combination of
// [ResetIncoming] and [ResetOutgoing].
func (s *Socket) ResetStreams(id AssocID, flags uint16, streams ...uint16) error {
	value := native.AppendUint32(nil, uint32(id))
	value = native.AppendUint16(value, flags)
	value = native.AppendUint16(value, uint16(len(streams)))
	for _, stream := range streams {
		value = native.AppendUint16(value, stream)
	}
	return s.opError("setsockopt", s.setOption(ProtocolSCTP, OptResetStreams, value))
}
