//go:build linux

package sctp

import "github.com/carrick-sctp/carrick/bindings/go/compat"

// Constants of a package are its own: Go has no alias of them all, so that each module lists them.

// Level of SCTP's socket options, flags of SCTPBind, and the flag of notifications.
const (
	SOL_SCTP = 132

	SCTP_BINDX_ADD_ADDR = 0x01
	SCTP_BINDX_REM_ADDR = 0x02

	MSG_NOTIFICATION = 0x8000
)

// Socket options, with Linux's numbers.
const (
	SCTP_RTOINFO               = 0
	SCTP_ASSOCINFO             = 1
	SCTP_INITMSG               = 2
	SCTP_NODELAY               = 3
	SCTP_AUTOCLOSE             = 4
	SCTP_SET_PEER_PRIMARY_ADDR = 5
	SCTP_PRIMARY_ADDR          = 6
	SCTP_ADAPTATION_LAYER      = 7
	SCTP_DISABLE_FRAGMENTS     = 8
	SCTP_PEER_ADDR_PARAMS      = 9
	SCTP_DEFAULT_SENT_PARAM    = 10
	SCTP_EVENTS                = 11
	SCTP_I_WANT_MAPPED_V4_ADDR = 12
	SCTP_MAXSEG                = 13
	SCTP_STATUS                = 14
	SCTP_GET_PEER_ADDR_INFO    = 15
	SCTP_DELAYED_ACK_TIME      = 16
	SCTP_DELAYED_ACK           = SCTP_DELAYED_ACK_TIME
	SCTP_DELAYED_SACK          = SCTP_DELAYED_ACK_TIME

	SCTP_SOCKOPT_BINDX_ADD = 100
	SCTP_SOCKOPT_BINDX_REM = 101
	SCTP_SOCKOPT_PEELOFF   = 102
	SCTP_GET_PEER_ADDRS    = 108
	SCTP_GET_LOCAL_ADDRS   = 109
	SCTP_SOCKOPT_CONNECTX  = 110
	SCTP_SOCKOPT_CONNECTX3 = 111
)

// Events of SubscribeEvents.
const (
	SCTP_EVENT_DATA_IO          = 1 << 0
	SCTP_EVENT_ASSOCIATION      = 1 << 1
	SCTP_EVENT_ADDRESS          = 1 << 2
	SCTP_EVENT_SEND_FAILURE     = 1 << 3
	SCTP_EVENT_PEER_ERROR       = 1 << 4
	SCTP_EVENT_SHUTDOWN         = 1 << 5
	SCTP_EVENT_PARTIAL_DELIVERY = 1 << 6
	SCTP_EVENT_ADAPTATION_LAYER = 1 << 7
	SCTP_EVENT_AUTHENTICATION   = 1 << 8
	SCTP_EVENT_SENDER_DRY       = 1 << 9

	SCTP_EVENT_ALL = 1<<10 - 1
)

// Types of notifications, with Linux's numbers.
const (
	SCTP_SN_TYPE_BASE              = SCTPNotificationType(0x8000)
	SCTP_ASSOC_CHANGE              = SCTPNotificationType(0x8001)
	SCTP_PEER_ADDR_CHANGE          = SCTPNotificationType(0x8002)
	SCTP_SEND_FAILED               = SCTPNotificationType(0x8003)
	SCTP_REMOTE_ERROR              = SCTPNotificationType(0x8004)
	SCTP_SHUTDOWN_EVENT            = SCTPNotificationType(0x8005)
	SCTP_PARTIAL_DELIVERY_EVENT    = SCTPNotificationType(0x8006)
	SCTP_ADAPTATION_INDICATION     = SCTPNotificationType(0x8007)
	SCTP_AUTHENTICATION_INDICATION = SCTPNotificationType(0x8008)
	SCTP_SENDER_DRY_EVENT          = SCTPNotificationType(0x8009)
)

// Types of ancillary data.
const (
	SCTP_CMSG_INIT    = 0
	SCTP_CMSG_SNDRCV  = 1
	SCTP_CMSG_SNDINFO = 2
	SCTP_CMSG_RCVINFO = 3
	SCTP_CMSG_NXTINFO = 4
)

// Flags of messages. SCTP_EOF has the value of this module, which is not Linux's.
const (
	SCTP_UNORDERED        = 1 << 0
	SCTP_ADDR_OVER        = 1 << 1
	SCTP_ABORT            = 1 << 2
	SCTP_SACK_IMMEDIATELY = 1 << 3
	SCTP_EOF              = 1 << 4
)

// States of associations in notifications.
const (
	SCTP_COMM_UP        = SCTPState(0)
	SCTP_COMM_LOST      = SCTPState(1)
	SCTP_RESTART        = SCTPState(2)
	SCTP_SHUTDOWN_COMP  = SCTPState(3)
	SCTP_CANT_STR_ASSOC = SCTPState(4)
)

// SCTP_MAX_STREAM is the number of outbound streams that DialSCTP and ListenSCTP request.
const SCTP_MAX_STREAM = 0xffff

// Types that do not depend on the module.
type (
	EventSubscribe       = compat.EventSubscribe
	GetAddrsOld          = compat.GetAddrsOld
	InitMsg              = compat.InitMsg
	NotificationHandler  = compat.NotificationHandler
	NotificationHeader   = compat.NotificationHeader
	SCTPAddr             = compat.SCTPAddr
	SCTPAssocID          = compat.SCTPAssocID
	SCTPNotificationType = compat.SCTPNotificationType
	SCTPState            = compat.SCTPState
	SndInfo              = compat.SndInfo
	SndRcvInfo           = compat.SndRcvInfo
	// SCTPSndRcvInfoWrappedConn is a connection whose messages have their SndRcvInfo in front.
	SCTPSndRcvInfoWrappedConn = compat.SCTPSndRcvInfoWrappedConn
)

// ResolveSCTPAddr returns the address of a string such as "192.0.2.1/198.51.100.1:38412". The network is
// "sctp", "sctp4", "sctp6" or "".
func ResolveSCTPAddr(network, addrs string) (*SCTPAddr, error) {
	return compat.ResolveSCTPAddr(network, addrs)
}

// SCTPBind binds a descriptor, or adds addresses to it (SCTP_BINDX_ADD_ADDR) or removes them
// (SCTP_BINDX_REM_ADDR).
func SCTPBind(fd int, addr *SCTPAddr, flags int) error { return compat.SCTPBind(fd, addr, flags) }

// SCTPConnect sets up an association on a descriptor, and returns its identifier.
func SCTPConnect(fd int, addr *SCTPAddr) (int, error) { return compat.SCTPConnect(fd, addr) }

// NewSCTPSndRcvInfoWrappedConn returns the wrapped connection of a connection, which it subscribes to
// SCTP_EVENT_DATA_IO; nil if that fails.
func NewSCTPSndRcvInfoWrappedConn(conn *SCTPConn) *SCTPSndRcvInfoWrappedConn {
	return compat.NewSCTPSndRcvInfoWrappedConn(conn.base)
}
