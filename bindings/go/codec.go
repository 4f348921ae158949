package sctp

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"strconv"
)

// Frames on the socket pair of a descriptor, and requests and replies on the control socket, in the
// layout of crate carrick-ipc. Integers have the byte order of the host, except those in socket addresses
// and the payload protocol identifier, which the sockets API passes in network byte order.
const (
	frameMagic   = 0x43534601
	requestMagic = 0x43535101
	replyMagic   = 0x43535201

	headerSize      = 72
	descriptionSize = 12
	requestFields   = 24
	replyFields     = 12 + descriptionSize

	// maxControl is the limit of the ancillary data of a frame in bytes.
	maxControl = 256
	// maxPayload is the limit of the payload of a frame in bytes.
	maxPayload = 1 << 16
	maxFrame   = headerSize + maxControl + maxPayload
	maxRequest = 256 << 10
	maxReply   = 128 << 10

	headerAddress  = 40
	headerReserved = 68

	flagEnd          = 1
	flagNotification = 2
	// flagRest is set if a frame with the rest of the message follows as soon as the pair has room.
	flagRest = 4
)

var errMalformed = errors.New("sctp: malformed frame of the daemon")

var native = binary.NativeEndian

type frameKind uint16

const (
	frameMessage  frameKind = 1
	frameAccepted frameKind = 2
	frameFailed   frameKind = 3
	frameSend     frameKind = 4
	framePlug     frameKind = 5
)

// frameHeader is the header of a frame.
type frameHeader struct {
	kind           frameKind
	isEnd          bool
	isNotification bool
	hasRest        bool
	sequence       uint32
	// control is the size of the ancillary data that follows, in bytes.
	control uint16
	info    RcvInfo
	// flow is the flow information of an IPv6 address.
	flow uint32
}

// append appends the bytes of the header.
func (h *frameHeader) append(b []byte) []byte {
	at := len(b)
	b = append(b, make([]byte, headerSize)...)
	p := b[at:]
	var flags uint16
	if h.isEnd {
		flags |= flagEnd
	}
	if h.isNotification {
		flags |= flagNotification
	}
	if h.hasRest {
		flags |= flagRest
	}
	native.PutUint32(p[0:], frameMagic)
	native.PutUint16(p[4:], uint16(h.kind))
	native.PutUint16(p[6:], flags)
	native.PutUint32(p[8:], h.sequence)
	native.PutUint16(p[12:], h.control)
	native.PutUint16(p[14:], h.info.Stream)
	native.PutUint16(p[16:], h.info.SSN)
	native.PutUint16(p[18:], h.info.Flags)
	binary.BigEndian.PutUint32(p[20:], h.info.PPID)
	native.PutUint32(p[24:], h.info.TSN)
	native.PutUint32(p[28:], h.info.CumTSN)
	native.PutUint32(p[32:], h.info.Context)
	native.PutUint32(p[36:], uint32(h.info.AssocID))
	if h.info.From.IsValid() {
		putSockaddr(p[headerAddress:], h.info.From, h.flow)
	}
	return b
}

// decodeHeader reads a header from the start of b.
func decodeHeader(b []byte) (frameHeader, error) {
	if len(b) < headerSize || native.Uint32(b) != frameMagic || native.Uint32(b[headerReserved:]) != 0 {
		return frameHeader{}, errMalformed
	}
	kind, flags := frameKind(native.Uint16(b[4:])), native.Uint16(b[6:])
	control := native.Uint16(b[12:])
	if kind < frameMessage || kind > framePlug || flags&^(flagEnd|flagNotification|flagRest) != 0 || control > maxControl {
		return frameHeader{}, errMalformed
	}
	h := frameHeader{
		kind:           kind,
		isEnd:          flags&flagEnd != 0,
		isNotification: flags&flagNotification != 0,
		hasRest:        flags&flagRest != 0,
		sequence:       native.Uint32(b[8:]),
		control:        control,
		info: RcvInfo{
			Stream:  native.Uint16(b[14:]),
			SSN:     native.Uint16(b[16:]),
			Flags:   native.Uint16(b[18:]),
			PPID:    binary.BigEndian.Uint32(b[20:]),
			TSN:     native.Uint32(b[24:]),
			CumTSN:  native.Uint32(b[28:]),
			Context: native.Uint32(b[32:]),
			AssocID: AssocID(native.Uint32(b[36:])),
		},
	}
	address := b[headerAddress:headerReserved]
	used := 0
	if native.Uint16(address) != 0 {
		var err error
		if h.info.From, h.flow, used, err = sockaddr(address); err != nil {
			return frameHeader{}, err
		}
		if used == sockaddrIn {
			// The header has the eight bytes of sockaddr_in that are not padding.
			used = 8
		}
	}
	for _, padding := range address[used:] {
		if padding != 0 {
			return frameHeader{}, errMalformed
		}
	}
	return h, nil
}

const (
	afInet     = 2
	afInet6    = 10
	sockaddrIn = 16
	// sockaddrIn6 is the size of sockaddr_in6 in bytes.
	sockaddrIn6 = 28
)

// putSockaddr writes an address as sockaddr_in or sockaddr_in6 without the padding, and returns its size.
func putSockaddr(b []byte, address netip.AddrPort, flow uint32) int {
	binary.BigEndian.PutUint16(b[2:], address.Port())
	ip := address.Addr()
	if ip.Is4() {
		native.PutUint16(b, afInet)
		octets := ip.As4()
		copy(b[4:], octets[:])
		return sockaddrIn
	}
	native.PutUint16(b, afInet6)
	binary.BigEndian.PutUint32(b[4:], flow)
	octets := ip.As16()
	copy(b[8:], octets[:])
	native.PutUint32(b[24:], scope(ip.Zone()))
	return sockaddrIn6
}

// appendSockaddr appends an address as sockaddr_in or sockaddr_in6.
func appendSockaddr(b []byte, address netip.AddrPort) []byte {
	var space [sockaddrIn6]byte
	return append(b, space[:putSockaddr(space[:], address, 0)]...)
}

// sockaddr reads the first address of b. It returns the address, its flow information and its size.
func sockaddr(b []byte) (netip.AddrPort, uint32, int, error) {
	if len(b) < sockaddrIn {
		return netip.AddrPort{}, 0, 0, errMalformed
	}
	port := binary.BigEndian.Uint16(b[2:])
	switch native.Uint16(b) {
	case afInet:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), port), 0, sockaddrIn, nil
	case afInet6:
		if len(b) < sockaddrIn6 {
			return netip.AddrPort{}, 0, 0, errMalformed
		}
		ip := netip.AddrFrom16([16]byte(b[8:24]))
		if index := native.Uint32(b[24:]); index != 0 {
			if ip.Is4In6() {
				return netip.AddrPort{}, 0, 0, errMalformed
			}
			ip = ip.WithZone(strconv.FormatUint(uint64(index), 10))
		}
		return netip.AddrPortFrom(ip, port), binary.BigEndian.Uint32(b[4:]), sockaddrIn6, nil
	}
	return netip.AddrPort{}, 0, 0, errMalformed
}

// sockaddrs reads a packed list of addresses.
func sockaddrs(b []byte) ([]netip.AddrPort, error) {
	var list []netip.AddrPort
	for len(b) > 0 {
		address, _, size, err := sockaddr(b)
		if err != nil {
			return nil, err
		}
		list = append(list, address)
		b = b[size:]
	}
	return list, nil
}

// property is a flag of a description.
type property uint32

const (
	propertyOneToMany   property = 1
	propertyInet6       property = 2
	propertyListening   property = 4
	propertyConnecting  property = 8
	propertyEstablished property = 16
	propertyWriteClosed property = 32
	propertyRcvInfo     property = 64
	propertyNxtInfo     property = 128
	propertySndRcv      property = 256
	// propertyNoDefaultStream: messages without attributes are refused.
	propertyNoDefaultStream property = 512
	// propertyLingers: closing the last descriptor waits (SO_LINGER), which Close does not do.
	propertyLingers property = 1024
	knownProperties property = 2047
)

// description is the state of a socket that the daemon reports with each reply.
type description struct {
	properties property
	// streams is the number of outbound streams of the only association; 0 without one.
	streams uint16
	// maxMessage is the size of the largest message that can be sent in frames, in bytes.
	maxMessage uint32
}

func (d description) has(p property) bool { return d.properties&p != 0 }

func (d description) append(b []byte) []byte {
	b = native.AppendUint32(b, uint32(d.properties))
	b = native.AppendUint32(b, uint32(d.streams))
	return native.AppendUint32(b, d.maxMessage)
}

func decodeDescription(b []byte) (description, error) {
	if len(b) != descriptionSize {
		return description{}, errMalformed
	}
	properties, streams := property(native.Uint32(b)), native.Uint32(b[4:])
	if properties&^knownProperties != 0 || streams > 0xffff {
		return description{}, errMalformed
	}
	return description{properties, uint16(streams), native.Uint32(b[8:])}, nil
}

type requestCode uint32

const (
	requestSocket requestCode = iota + 1
	requestDescribe
	requestBind
	requestListen
	requestConnect
	requestShutdown
	requestGetOption
	requestSetOption
	requestLocalAddress
	requestPeerAddress
	requestSend
	requestPeeloff
)

// request is a call of the sockets API that the daemon performs.
type request struct {
	code    requestCode
	a, b, c int32
	// first and second are the values; second is the message of requestSend.
	first, second []byte
}

func (r *request) append(b []byte) []byte {
	b = native.AppendUint32(b, requestMagic)
	b = native.AppendUint32(b, uint32(r.code))
	for _, number := range [3]int32{r.a, r.b, r.c} {
		b = native.AppendUint32(b, uint32(number))
	}
	b = native.AppendUint32(b, uint32(len(r.first)))
	b = append(b, r.first...)
	return append(b, r.second...)
}

// reply is the reply of a request.
type reply struct {
	// errno is 0, or the error number of Linux.
	errno       int32
	result      int32
	description description
	value       []byte
}

func (r *reply) append(b []byte) []byte {
	b = native.AppendUint32(b, replyMagic)
	b = native.AppendUint32(b, uint32(r.errno))
	b = native.AppendUint32(b, uint32(r.result))
	b = r.description.append(b)
	return append(b, r.value...)
}

// decodeReply reads a reply, whose value is a part of b.
func decodeReply(b []byte) (reply, error) {
	if len(b) < replyFields || len(b) > maxReply || native.Uint32(b) != replyMagic {
		return reply{}, errMalformed
	}
	d, err := decodeDescription(b[12:replyFields])
	errno := int32(native.Uint32(b[4:]))
	if err != nil || errno < 0 {
		return reply{}, errMalformed
	}
	return reply{errno, int32(native.Uint32(b[8:])), d, b[replyFields:]}, nil
}

const (
	cmsgHeader  = 16
	cmsgSndInfo = 2
	cmsgPRInfo  = 5
)

// appendControl appends the attributes of a message as ancillary data: SCTP_SNDINFO, and SCTP_PRINFO
// where a policy is set.
func appendControl(b []byte, info *SndInfo) []byte {
	if info == nil {
		return b
	}
	b = appendCmsgHeader(b, cmsgSndInfo, 16)
	b = info.append(b)
	if info.PR.Policy != PRNone {
		b = appendCmsgHeader(b, cmsgPRInfo, 8)
		b = native.AppendUint16(b, uint16(info.PR.Policy))
		b = native.AppendUint16(b, 0)
		b = native.AppendUint32(b, info.PR.Value)
	}
	return b
}

func appendCmsgHeader(b []byte, kind uint32, size uint64) []byte {
	b = native.AppendUint64(b, cmsgHeader+size)
	b = native.AppendUint32(b, ProtocolSCTP)
	return native.AppendUint32(b, kind)
}

// append appends struct sctp_sndinfo.
func (info *SndInfo) append(b []byte) []byte {
	b = native.AppendUint16(b, info.Stream)
	b = native.AppendUint16(b, info.Flags)
	b = binary.BigEndian.AppendUint32(b, info.PPID)
	b = native.AppendUint32(b, info.Context)
	return native.AppendUint32(b, uint32(info.AssocID))
}
