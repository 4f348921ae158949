package sctp

// ProtocolSCTP is the protocol number of SCTP, and the level of its socket options.
const ProtocolSCTP = 132

const (
	levelSocket = 1
	levelIPv6   = 41

	optionReuseAddr = 2
	optionError     = 4
	optionSndBuf    = 7
	optionRcvBuf    = 8
	optionLinger    = 13
	optionReusePort = 15
	optionV6Only    = 26

	shutWr = 1
)

// Socket options of level [ProtocolSCTP] (RFC 6458, section 8), with Linux's numbers.
const (
	OptRTOInfo              = 0
	OptAssocInfo            = 1
	OptInitMsg              = 2
	OptNoDelay              = 3
	OptAutoClose            = 4
	OptSetPeerPrimaryAddr   = 5
	OptPrimaryAddr          = 6
	OptAdaptationLayer      = 7
	OptDisableFragments     = 8
	OptPeerAddrParams       = 9
	OptDefaultSendParam     = 10
	OptEvents               = 11
	OptIWantMappedV4Addr    = 12
	OptMaxSeg               = 13
	OptStatus               = 14
	OptGetPeerAddrInfo      = 15
	OptDelayedSack          = 16
	OptContext              = 17
	OptFragmentInterleave   = 18
	OptPartialDeliveryPoint = 19
	OptMaxBurst             = 20
	OptAuthChunk            = 21
	OptHMACIdent            = 22
	OptAuthKey              = 23
	OptAuthActiveKey        = 24
	OptAuthDeleteKey        = 25
	OptPeerAuthChunks       = 26
	OptLocalAuthChunks      = 27
	OptGetAssocNumber       = 28
	OptGetAssocIDList       = 29
	OptPeerAddrThresholds   = 31
	OptRecvRcvInfo          = 32
	OptRecvNxtInfo          = 33
	OptDefaultSndInfo       = 34
	OptAuthDeactivateKey    = 35
	OptReusePort            = 36
	OptPeerAddrThresholdsV2 = 37
	OptBindxAdd             = 100
	OptBindxRemove          = 101
	OptGetPeerAddrs         = 108
	OptGetLocalAddrs        = 109
	OptPRSupported          = 113
	OptDefaultPRInfo        = 114
	OptPRAssocStatus        = 115
	OptPRStreamStatus       = 116
	OptReconfigSupported    = 117
	OptEnableStreamReset    = 118
	OptResetStreams         = 119
	OptResetAssoc           = 120
	OptAddStreams           = 121
	OptStreamScheduler      = 123
	OptStreamSchedulerValue = 124
	OptInterleaving         = 125
	OptEvent                = 127
	OptASCONFSupported      = 128
	OptAuthSupported        = 129
	OptECNSupported         = 130
	OptExposePFState        = 131
	OptRemoteUDPEncapsPort  = 132
)

// Special association identifiers on one-to-many sockets (RFC 6458, section 7.1).
const (
	FutureAssoc  AssocID = 0
	CurrentAssoc AssocID = 1
	AllAssoc     AssocID = 2
)

// Flags of sent and received messages ([SndInfo], [RcvInfo]; RFC 6458, sections 5.3.4 and 5.3.5).
const (
	// Unordered is set for messages without order.
	Unordered uint16 = 1 << 0
	// AddrOver selects the address of [OneToMany.WriteMsgTo] as the destination.
	AddrOver uint16 = 1 << 1
	// AbortAssoc aborts the association; the message is the cause. On one-to-many sockets.
	AbortAssoc uint16 = 1 << 2
	// SackImmediately sets the I bit (RFC 7053).
	SackImmediately uint16 = 1 << 3
	// SendAll sends the message to all associations. On one-to-many sockets.
	SendAll uint16 = 1 << 6
	// EOF shuts down the association, with an empty message. On one-to-many sockets.
	EOF uint16 = 0x200
)

// PRPolicy is a policy of partial reliability (RFC 3758, RFC 7496).
type PRPolicy uint16

const (
	// PRNone delivers the message reliably.
	PRNone PRPolicy = 0
	// PRTTL abandons the message after a time in milliseconds.
	PRTTL PRPolicy = 0x10
	// PRRTX abandons the message after a number of retransmissions.
	PRRTX PRPolicy = 0x20
	// PRPriority abandons the message in favour of messages with smaller numbers.
	PRPriority PRPolicy = 0x30
)

// AssocState is the state of an association ([Status]).
type AssocState int32

// States of associations, with Linux's numbers.
const (
	StateEmpty AssocState = iota
	StateClosed
	StateCookieWait
	StateCookieEchoed
	StateEstablished
	StateShutdownPending
	StateShutdownSent
	StateShutdownReceived
	StateShutdownAckSent
)

// PathState is the state of a path ([PeerAddrInfo]).
type PathState int32

// States of paths, with Linux's numbers.
const (
	PathInactive PathState = iota
	PathPotentiallyFailed
	PathActive
	PathUnconfirmed
)

// Flags of [PeerAddrParams].
const (
	HeartbeatEnable     uint32 = 1 << 0
	HeartbeatDisable    uint32 = 1 << 1
	HeartbeatDemand     uint32 = 1 << 2
	PMTUDEnable         uint32 = 1 << 3
	PMTUDDisable        uint32 = 1 << 4
	SackDelayEnable     uint32 = 1 << 5
	SackDelayDisable    uint32 = 1 << 6
	HeartbeatTimeIsZero uint32 = 1 << 7
)
