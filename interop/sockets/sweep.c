/* Every option of SCTP with buffers of several lengths: on a new socket, on a connected one, with a wrong identifier. */
#include "probe.h"

static const struct {
	const char *name;
	int number;
} options[] = {
#define OPTION(name) { #name, name }
	OPTION(SCTP_RTOINFO), OPTION(SCTP_ASSOCINFO), OPTION(SCTP_INITMSG), OPTION(SCTP_NODELAY), OPTION(SCTP_AUTOCLOSE),
	OPTION(SCTP_SET_PEER_PRIMARY_ADDR), OPTION(SCTP_PRIMARY_ADDR), OPTION(SCTP_ADAPTATION_LAYER),
	OPTION(SCTP_DISABLE_FRAGMENTS), OPTION(SCTP_PEER_ADDR_PARAMS), OPTION(SCTP_DEFAULT_SEND_PARAM), OPTION(SCTP_EVENTS),
	OPTION(SCTP_I_WANT_MAPPED_V4_ADDR), OPTION(SCTP_MAXSEG), OPTION(SCTP_STATUS), OPTION(SCTP_GET_PEER_ADDR_INFO),
	OPTION(SCTP_DELAYED_SACK), OPTION(SCTP_CONTEXT), OPTION(SCTP_FRAGMENT_INTERLEAVE), OPTION(SCTP_PARTIAL_DELIVERY_POINT),
	OPTION(SCTP_MAX_BURST), OPTION(SCTP_AUTH_CHUNK), OPTION(SCTP_HMAC_IDENT), OPTION(SCTP_AUTH_KEY),
	OPTION(SCTP_AUTH_ACTIVE_KEY), OPTION(SCTP_AUTH_DELETE_KEY), OPTION(SCTP_PEER_AUTH_CHUNKS),
	OPTION(SCTP_LOCAL_AUTH_CHUNKS), OPTION(SCTP_GET_ASSOC_NUMBER), OPTION(SCTP_GET_ASSOC_ID_LIST), OPTION(SCTP_AUTO_ASCONF),
	OPTION(SCTP_PEER_ADDR_THLDS), OPTION(SCTP_RECVRCVINFO), OPTION(SCTP_RECVNXTINFO), OPTION(SCTP_DEFAULT_SNDINFO),
	OPTION(SCTP_AUTH_DEACTIVATE_KEY), OPTION(SCTP_REUSE_PORT), OPTION(SCTP_PEER_ADDR_THLDS_V2),
	OPTION(SCTP_SOCKOPT_BINDX_ADD), OPTION(SCTP_SOCKOPT_BINDX_REM), OPTION(SCTP_SOCKOPT_PEELOFF),
	OPTION(SCTP_SOCKOPT_CONNECTX_OLD), OPTION(SCTP_GET_PEER_ADDRS), OPTION(SCTP_GET_LOCAL_ADDRS),
	OPTION(SCTP_SOCKOPT_CONNECTX), OPTION(SCTP_SOCKOPT_CONNECTX3), OPTION(SCTP_GET_ASSOC_STATS), OPTION(SCTP_PR_SUPPORTED),
	OPTION(SCTP_DEFAULT_PRINFO), OPTION(SCTP_PR_ASSOC_STATUS), OPTION(SCTP_PR_STREAM_STATUS),
	OPTION(SCTP_RECONFIG_SUPPORTED), OPTION(SCTP_ENABLE_STREAM_RESET), OPTION(SCTP_RESET_STREAMS), OPTION(SCTP_RESET_ASSOC),
	OPTION(SCTP_ADD_STREAMS), OPTION(SCTP_SOCKOPT_PEELOFF_FLAGS), OPTION(SCTP_STREAM_SCHEDULER),
	OPTION(SCTP_STREAM_SCHEDULER_VALUE), OPTION(SCTP_INTERLEAVING_SUPPORTED), OPTION(SCTP_SENDMSG_CONNECT),
	OPTION(SCTP_EVENT), OPTION(SCTP_ASCONF_SUPPORTED), OPTION(SCTP_AUTH_SUPPORTED), OPTION(SCTP_ECN_SUPPORTED),
	OPTION(SCTP_EXPOSE_POTENTIALLY_FAILED_STATE), OPTION(SCTP_REMOTE_UDP_ENCAPS_PORT), OPTION(SCTP_PLPMTUD_PROBE_INTERVAL),
	{ "unknown-99", 99 }, { "unknown-1000", 1000 }, { "unknown-negative", -1 },
};
enum { OPTIONS = sizeof(options) / sizeof(options[0]), LARGEST = 1024 };

static void get_all(int fd, socklen_t size, sctp_assoc_t id)
{
	for (size_t i = 0; i < OPTIONS; i++) {
		char buffer[LARGEST] = { 0 };
		socklen_t length = size;
		memcpy(buffer, &id, sizeof(id));
		errno = 0;
		int result = getsockopt(fd, SOL_SCTP, options[i].number, buffer, &length);
		step(options[i].name, text("get, %u bytes", size), result < 0 ? text("-1 %s", error_name(errno)) : text("%u bytes", length));
	}
}

static void set_all(int type, bool is_connected, socklen_t size, sctp_assoc_t id)
{
	struct pair p = { 0 };
	if (is_connected)
		p = connected(NULL);
	for (size_t i = 0; i < OPTIONS; i++) {
		/* Both would set up an association. */
		if (options[i].number == SCTP_SOCKOPT_CONNECTX || options[i].number == SCTP_SOCKOPT_CONNECTX_OLD)
			continue;
		int fd = is_connected ? p.client : new_socket(AF_INET, type);
		char buffer[LARGEST] = { 0 };
		memcpy(buffer, &id, sizeof(id));
		errno = 0;
		call(options[i].name, text("set, %u bytes", size), setsockopt(fd, SOL_SCTP, options[i].number, buffer, size));
		if (!is_connected)
			close(fd);
	}
}

static void get_new(void)
{
	get_all(new_socket(AF_INET, SOCK_STREAM), LARGEST, 0);
}

static void get_new_many(void)
{
	get_all(new_socket(AF_INET, SOCK_SEQPACKET), LARGEST, 0);
}

static void get_connected(void)
{
	get_all(connected(NULL).client, LARGEST, 0);
}

static void get_listening(void)
{
	get_all(listening(SOCK_STREAM), LARGEST, 0);
}

static void get_short(void)
{
	get_all(connected(NULL).client, 3, 0);
}

static void get_four(void)
{
	get_all(connected(NULL).client, 4, 0);
}

static void get_unknown_id(void)
{
	get_all(associated(NULL).client, LARGEST, UNKNOWN_ID);
}

static void set_empty(void)
{
	set_all(SOCK_STREAM, false, 0, 0);
}

static void set_short(void)
{
	set_all(SOCK_SEQPACKET, false, 3, 0);
}

static void set_four(void)
{
	set_all(SOCK_SEQPACKET, false, 4, 0);
}

static void set_long(void)
{
	set_all(SOCK_SEQPACKET, false, LARGEST, 0);
}

static void set_unknown_id(void)
{
	set_all(SOCK_SEQPACKET, false, LARGEST, UNKNOWN_ID);
}

static void set_connected(void)
{
	set_all(SOCK_STREAM, true, 8, 0);
}

const struct probe_case sweep_cases[] = {
	{ "sweep.get-new", get_new }, { "sweep.get-new-many", get_new_many }, { "sweep.get-connected", get_connected },
	{ "sweep.get-listening", get_listening }, { "sweep.get-short", get_short }, { "sweep.get-four", get_four },
	{ "sweep.get-unknown-id", get_unknown_id }, { "sweep.set-empty", set_empty }, { "sweep.set-short", set_short },
	{ "sweep.set-four", set_four }, { "sweep.set-long", set_long }, { "sweep.set-unknown-id", set_unknown_id },
	{ "sweep.set-connected", set_connected }, { NULL, NULL },
};
