/* Ancillary data and the defaults of messages (RFC 6458, sections 5.3, 8.1.13, 8.1.31 and 8.1.32). */
#include "probe.h"

static void with_rcvinfo(int fd)
{
	int on = 1;
	setsockopt(fd, SOL_SCTP, SCTP_RECVRCVINFO, &on, sizeof(on));
}

/* A control message of any length. */
static ssize_t send_raw(int fd, int level, int type, const void *data, size_t length, size_t claimed, size_t control_size)
{
	_Alignas(struct cmsghdr) char control[512] = { 0 };
	struct iovec part = { "data", 4 };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = control_size };
	struct cmsghdr *header = (struct cmsghdr *)control;
	header->cmsg_level = level;
	header->cmsg_type = type;
	header->cmsg_len = claimed;
	memcpy(CMSG_DATA(header), data, length);
	return sendmsg(fd, &message, MSG_DONTWAIT);
}

static void sndinfo(void)
{
	struct pair p = connected(with_rcvinfo);
	struct sctp_sndinfo info = { .snd_sid = 3, .snd_ppid = htonl(42), .snd_context = 5 };
	size_t size = sizeof(info);
	CALL("plain", send_info(p.client, NULL, "data", info));
	CALL("second", send_info(p.client, NULL, "data", info));
	info.snd_flags = SCTP_UNORDERED;
	CALL("unordered", send_info(p.client, NULL, "data", info));
	info.snd_flags = SCTP_SACK_IMMEDIATELY;
	CALL("immediately", send_info(p.client, NULL, "data", info));
	drain("received", p.server);
	info.snd_flags = 0;
	info.snd_assoc_id = UNKNOWN_ID;
	CALL("unknown-id", send_info(p.client, NULL, "data", info));
	info.snd_assoc_id = 0;
	info.snd_sid = 1000;
	CALL("stream-too-high", send_info(p.client, NULL, "data", info));
	info.snd_sid = 0;
	info.snd_flags = 0x0400;
	CALL("unknown-flag", send_info(p.client, NULL, "data", info));
	info.snd_flags = SCTP_ADDR_OVER;
	CALL("addr-over-without-address", send_info(p.client, NULL, "data", info));
	CALL("addr-over", send_info(p.client, &p.server_address, "data", info));
	info.snd_flags = SCTP_SENDALL;
	CALL("sendall", send_info(p.client, NULL, "data", info));
	info.snd_flags = SCTP_PR_SCTP_TTL;
	CALL("pr-policy-in-flags", send_info(p.client, NULL, "data", info));
	info.snd_flags = 0;
	CALL("space-as-length", send_raw(p.client, IPPROTO_SCTP, SCTP_SNDINFO, &info, size, CMSG_SPACE(size), CMSG_SPACE(size)));
	CALL("short", send_raw(p.client, IPPROTO_SCTP, SCTP_SNDINFO, &info, size, CMSG_LEN(size - 4), CMSG_SPACE(size)));
	CALL("long", send_raw(p.client, IPPROTO_SCTP, SCTP_SNDINFO, &info, size, CMSG_LEN(size + 8), CMSG_SPACE(size + 8)));
	CALL("length-below-header", send_raw(p.client, IPPROTO_SCTP, SCTP_SNDINFO, &info, size, 8, CMSG_SPACE(size)));
	CALL("length-beyond-end", send_raw(p.client, IPPROTO_SCTP, SCTP_SNDINFO, &info, size, CMSG_LEN(size), CMSG_LEN(size) - 4));
	CALL("control-too-short", send_raw(p.client, IPPROTO_SCTP, SCTP_SNDINFO, &info, size, CMSG_LEN(size), 8));
	CALL("unknown-type", send_raw(p.client, IPPROTO_SCTP, 77, &info, size, CMSG_LEN(size), CMSG_SPACE(size)));
	CALL("rcvinfo", send_raw(p.client, IPPROTO_SCTP, SCTP_RCVINFO, &info, size, CMSG_LEN(size), CMSG_SPACE(size)));
	CALL("other-level", send_raw(p.client, IPPROTO_UDP, 1, &info, size, CMSG_LEN(size), CMSG_SPACE(size)));
	CALL("socket-level-rights", send_raw(p.client, SOL_SOCKET, SCM_RIGHTS, &p.client, sizeof(int), CMSG_LEN(sizeof(int)), CMSG_SPACE(sizeof(int))));
	info.snd_flags = SCTP_EOF;
	CALL("eof-with-data", send_info(p.client, NULL, "data", info));
	drain("later", p.server);
	CALL("eof", send_info(p.client, NULL, NULL, info));
	drain("after-eof", p.server);
	CALL("after-eof.send", send(p.client, "x", 1, 0));
	p = connected(with_rcvinfo);
	info.snd_flags = SCTP_ABORT;
	CALL("abort", send_info(p.client, NULL, "reason", info));
	drain("abort.server", p.server);
	drain("abort.client", p.client);
}

static void sndrcv(void)
{
	struct pair p = connected(with_rcvinfo);
	receive_sndrcv(p.server);
	struct sctp_sndrcvinfo info = { .sinfo_stream = 2, .sinfo_ppid = htonl(43), .sinfo_context = 6, .sinfo_timetolive = 1000 };
	CALL("plain", send_control(p.client, NULL, "data", SCTP_SNDRCV, &info, sizeof(info)));
	info.sinfo_flags = SCTP_UNORDERED | SCTP_PR_SCTP_RTX;
	CALL("flags", send_control(p.client, NULL, "data", SCTP_SNDRCV, &info, sizeof(info)));
	drain("received", p.server);
	CALL("short", send_raw(p.client, IPPROTO_SCTP, SCTP_SNDRCV, &info, sizeof(info), CMSG_LEN(16), CMSG_SPACE(sizeof(info))));
	info.sinfo_flags = 0x0400;
	CALL("unknown-flag", send_control(p.client, NULL, "data", SCTP_SNDRCV, &info, sizeof(info)));
	info.sinfo_flags = 0;
	info.sinfo_stream = 1000;
	CALL("stream-too-high", send_control(p.client, NULL, "data", SCTP_SNDRCV, &info, sizeof(info)));
	/* Both kinds: the fields differ. */
	_Alignas(struct cmsghdr) char control[256] = { 0 };
	struct iovec part = { "both", 4 };
	size_t old_space = CMSG_SPACE(sizeof(info));
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = control,
		.msg_controllen = old_space + CMSG_SPACE(sizeof(struct sctp_sndinfo)),
	};
	info.sinfo_stream = 1;
	struct sctp_sndinfo newer = { .snd_sid = 4 };
	struct cmsghdr *header = (struct cmsghdr *)control;
	*header = (struct cmsghdr){ CMSG_LEN(sizeof(info)), IPPROTO_SCTP, SCTP_SNDRCV };
	memcpy(CMSG_DATA(header), &info, sizeof(info));
	header = (struct cmsghdr *)(control + old_space);
	*header = (struct cmsghdr){ CMSG_LEN(sizeof(newer)), IPPROTO_SCTP, SCTP_SNDINFO };
	memcpy(CMSG_DATA(header), &newer, sizeof(newer));
	CALL("with-sndinfo", sendmsg(p.client, &message, 0));
	drain("with-sndinfo", p.server);
}

static void rcvinfo(void)
{
	struct pair p = connected(NULL);
	struct sctp_sndinfo info = { .snd_sid = 1, .snd_ppid = htonl(11) };
	GET_INT("rcvinfo", p.server, SOL_SCTP, SCTP_RECVRCVINFO);
	GET_INT("nxtinfo", p.server, SOL_SCTP, SCTP_RECVNXTINFO);
	send_info(p.client, NULL, "none", info);
	receive("none", p.server);
	SET_INT("set-rcvinfo", p.server, SOL_SCTP, SCTP_RECVRCVINFO, 1);
	send_info(p.client, NULL, "rcvinfo", info);
	receive("with-rcvinfo", p.server);
	SET_INT("set-nxtinfo", p.server, SOL_SCTP, SCTP_RECVNXTINFO, 1);
	send_info(p.client, NULL, "last", info);
	receive("nxtinfo-of-none", p.server);
	info.snd_sid = 2;
	send_info(p.client, NULL, "one", info);
	info.snd_sid = 3;
	info.snd_flags = SCTP_UNORDERED;
	send_info(p.client, NULL, "another", info);
	pause_ms(200);
	receive_with("nxtinfo-part", p.server, 2, 512, 0);
	receive("nxtinfo-rest", p.server);
	receive("nxtinfo-last", p.server);
	info.snd_flags = 0;
	/* With a type that is a matter of sockets, for the association of a connected one. */
	subscribe(p.server, SCTP_DATA_IO_EVENT, 1);
	send_info(p.client, NULL, "event", info);
	receive("data-io-by-event", p.server);
	receive_sndrcv(p.server);
	send_info(p.client, NULL, "all three", info);
	send_info(p.client, NULL, "next", info);
	pause_ms(200);
	receive_with("peek", p.server, 100, 512, MSG_PEEK);
	receive("all", p.server);
	receive_with("small-control", p.server, 100, CMSG_SPACE(sizeof(struct sctp_rcvinfo)) + 4, MSG_PEEK);
	receive_with("tiny-control", p.server, 100, 20, MSG_PEEK);
	receive_with("no-control", p.server, 100, 0, 0);
	SET_INT("rcvinfo-wrong", p.server, SOL_SCTP, SCTP_RECVRCVINFO, 7);
	GET_INT("rcvinfo-wrong.get", p.server, SOL_SCTP, SCTP_RECVRCVINFO);
	/* The name of a message of the other direction, and SCTP_CONTEXT. */
	struct sctp_assoc_value context = { 0, 77 };
	SET("context", p.server, SCTP_CONTEXT, context);
	GET("context.get", p.server, SCTP_CONTEXT, context, "%u", context.assoc_value);
	send_info(p.client, NULL, "context", info);
	receive("context.recv", p.server);
	/* A notification has no ancillary data of messages. */
	subscribe(p.server, SCTP_SHUTDOWN_EVENT, 1);
	CALL("shutdown", shutdown(p.client, SHUT_WR));
	drain("end", p.server);
}

static void prinfo(void)
{
	struct pair p = connected(with_rcvinfo);
	struct sctp_prinfo info = { SCTP_PR_SCTP_TTL, 1000 };
	CALL("timed", send_control(p.client, NULL, "timed", SCTP_PRINFO, &info, sizeof(info)));
	info.pr_policy = SCTP_PR_SCTP_RTX;
	CALL("retransmissions", send_control(p.client, NULL, "rtx", SCTP_PRINFO, &info, sizeof(info)));
	info.pr_policy = SCTP_PR_SCTP_PRIO;
	CALL("priority", send_control(p.client, NULL, "prio", SCTP_PRINFO, &info, sizeof(info)));
	info.pr_policy = SCTP_PR_SCTP_NONE;
	CALL("none", send_control(p.client, NULL, "none", SCTP_PRINFO, &info, sizeof(info)));
	drain("received", p.server);
	info.pr_policy = 0x0100;
	CALL("unknown", send_control(p.client, NULL, "data", SCTP_PRINFO, &info, sizeof(info)));
	info.pr_policy = 1;
	CALL("mixed", send_control(p.client, NULL, "data", SCTP_PRINFO, &info, sizeof(info)));
	CALL("short", send_raw(p.client, IPPROTO_SCTP, SCTP_PRINFO, &info, sizeof(info), CMSG_LEN(4), CMSG_SPACE(sizeof(info))));
	struct sctp_authinfo key = { 0 };
	CALL("authinfo", send_control(p.client, NULL, "data", SCTP_AUTHINFO, &key, sizeof(key)));
	key.auth_keynumber = 9;
	CALL("authinfo-unknown", send_control(p.client, NULL, "data", SCTP_AUTHINFO, &key, sizeof(key)));
	CALL("authinfo-short", send_raw(p.client, IPPROTO_SCTP, SCTP_AUTHINFO, &key, sizeof(key), CMSG_LEN(1), CMSG_SPACE(sizeof(key))));
	struct sctp_initmsg init = { .sinit_num_ostreams = 3 };
	CALL("init-on-connected", send_control(p.client, NULL, "data", SCTP_INIT, &init, sizeof(init)));
	struct in_addr place;
	inet_pton(AF_INET, "127.0.0.2", &place);
	CALL("dstaddr-on-connected", send_control(p.client, NULL, "data", SCTP_DSTADDRV4, &place, sizeof(place)));
	drain("later", p.server);
}

static void init_message(void)
{
	int server = listening(SOCK_SEQPACKET), client = new_socket(AF_INET, SOCK_SEQPACKET);
	subscribe(server, SCTP_ASSOC_CHANGE, 1);
	subscribe(client, SCTP_ASSOC_CHANGE, 1);
	struct sockaddr_in address = v4("127.0.0.1", port_of(server));
	struct sctp_initmsg init = { .sinit_num_ostreams = 3, .sinit_max_instreams = 2 };
	CALL("send", send_control(client, &address, "x", SCTP_INIT, &init, sizeof(init)));
	drain("server", server);
	drain("client", client);
	struct sctp_sndinfo info = { .snd_sid = 3 };
	CALL("stream-too-high", send_info(client, &address, "x", info));
	CALL("again", send_control(client, &address, "x", SCTP_INIT, &init, sizeof(init)));
	CALL("short", send_control(client, &address, "x", SCTP_INIT, &init, 4));
	int one = new_socket(AF_INET, SOCK_STREAM), listener = listening(SOCK_STREAM);
	struct sockaddr_in other = v4("127.0.0.1", port_of(listener));
	CALL("one-to-one.implicit", send_control(one, &other, "implicit", SCTP_INIT, &init, sizeof(init)));
	struct sctp_status status = { 0 };
	pause_ms(200);
	GET("one-to-one.status", one, SCTP_STATUS, status, "state=%d in=%u out=%u", status.sstat_state, status.sstat_instrms,
	    status.sstat_outstrms);
	int accepted = MADE("one-to-one.accept", accept4(listener, NULL, NULL, SOCK_NONBLOCK));
	if (accepted >= 0)
		drain("one-to-one.server", accepted);
}

static void destinations(void)
{
	int server = new_socket(AF_INET, SOCK_SEQPACKET), client = new_socket(AF_INET, SOCK_SEQPACKET);
	struct sockaddr_in locals[2] = { v4("127.0.0.1", 0), v4("127.0.0.2", 0) };
	CALL("bindx", sctp_bindx(server, ADDRESS(locals[0]), 2, SCTP_BINDX_ADD_ADDR));
	CALL("listen", listen(server, 5));
	struct sockaddr_in address = v4("127.0.0.1", port_of(server)), second = v4("127.0.0.2", port_of(server)),
			   unknown = v4("127.0.0.3", port_of(server));
	with_rcvinfo(server);
	struct in_addr place;
	inet_pton(AF_INET, "127.0.0.2", &place);
	CALL("short", send_control(client, &address, "x", SCTP_DSTADDRV4, &place, 2));
	CALL("send", send_control(client, &address, "two", SCTP_DSTADDRV4, &place, sizeof(place)));
	drain("server", server);
	struct sockaddr *list = NULL;
	int number = sctp_getpaddrs(client, first_id(client), &list);
	step("peers", "sctp_getpaddrs", number > 0 ? addresses_text(list, number) : text("%d", number));
	struct sctp_sndinfo info = { .snd_flags = SCTP_ADDR_OVER };
	CALL("addr-over", send_info(client, &second, "over", info));
	CALL("addr-over-unknown", send_info(client, &unknown, "over", info));
	drain("addr-over", server);
}

static void defaults(void)
{
	struct pair p = connected(with_rcvinfo);
	struct sctp_sndinfo info = { 0 };
	GET("sndinfo", p.client, SCTP_DEFAULT_SNDINFO, info, "sid=%u flags=%u ppid=%u context=%u id=%s", info.snd_sid, info.snd_flags,
	    ntohl(info.snd_ppid), info.snd_context, association_name(info.snd_assoc_id));
	info = (struct sctp_sndinfo){ .snd_sid = 2, .snd_flags = SCTP_UNORDERED, .snd_ppid = htonl(21), .snd_context = 3 };
	SET("sndinfo.set", p.client, SCTP_DEFAULT_SNDINFO, info);
	CALL("sndinfo.send", send(p.client, "defaults", 8, 0));
	struct sctp_sndrcvinfo old = { 0 };
	GET("param", p.client, SCTP_DEFAULT_SEND_PARAM, old, "sid=%u flags=%u ppid=%u context=%u ttl=%u", old.sinfo_stream,
	    old.sinfo_flags, ntohl(old.sinfo_ppid), old.sinfo_context, old.sinfo_timetolive);
	old = (struct sctp_sndrcvinfo){ .sinfo_stream = 1, .sinfo_ppid = htonl(22), .sinfo_context = 4, .sinfo_timetolive = 500 };
	SET("param.set", p.client, SCTP_DEFAULT_SEND_PARAM, old);
	CALL("param.send", send(p.client, "param", 5, 0));
	GET("param.sndinfo", p.client, SCTP_DEFAULT_SNDINFO, info, "sid=%u flags=%u ppid=%u context=%u", info.snd_sid, info.snd_flags,
	    ntohl(info.snd_ppid), info.snd_context);
	info = (struct sctp_sndinfo){ .snd_sid = 3 };
	CALL("overridden", send_info(p.client, NULL, "given", info));
	struct sctp_prinfo pr = { SCTP_PR_SCTP_TTL, 1000 };
	CALL("prinfo-only", send_control(p.client, NULL, "pr", SCTP_PRINFO, &pr, sizeof(pr)));
	drain("received", p.server);
	info = (struct sctp_sndinfo){ .snd_flags = 0x0400 };
	SET("unknown-flag", p.client, SCTP_DEFAULT_SNDINFO, info);
	info = (struct sctp_sndinfo){ .snd_flags = SCTP_EOF };
	SET("eof", p.client, SCTP_DEFAULT_SNDINFO, info);
	old = (struct sctp_sndrcvinfo){ .sinfo_flags = 0x0400 };
	SET("param.unknown-flag", p.client, SCTP_DEFAULT_SEND_PARAM, old);
	info = (struct sctp_sndinfo){ .snd_sid = 2000 };
	SET("stream-too-high", p.client, SCTP_DEFAULT_SNDINFO, info);
	CALL("stream-too-high.send", send(p.client, "x", 1, 0));
	info = (struct sctp_sndinfo){ .snd_flags = SCTP_EOF };
	SET_LENGTH("short", p.client, SCTP_DEFAULT_SNDINFO, info, 8);
	struct sctp_default_prinfo policy = { 0 };
	GET("prinfo", p.client, SCTP_DEFAULT_PRINFO, policy, "policy=%u value=%u", policy.pr_policy, policy.pr_value);
	policy = (struct sctp_default_prinfo){ 0, 1500, SCTP_PR_SCTP_TTL };
	SET("prinfo.set", p.client, SCTP_DEFAULT_PRINFO, policy);
	GET("prinfo.get", p.client, SCTP_DEFAULT_PRINFO, policy, "policy=%u value=%u", policy.pr_policy, policy.pr_value);
	GET("prinfo.param", p.client, SCTP_DEFAULT_SEND_PARAM, old, "flags=%u ttl=%u", old.sinfo_flags, old.sinfo_timetolive);
	policy = (struct sctp_default_prinfo){ 0, 7, SCTP_PR_SCTP_NONE };
	SET("prinfo.none", p.client, SCTP_DEFAULT_PRINFO, policy);
	GET("prinfo.none.get", p.client, SCTP_DEFAULT_PRINFO, policy, "policy=%u value=%u", policy.pr_policy, policy.pr_value);
	policy = (struct sctp_default_prinfo){ 0, 7, 0x100 };
	SET("prinfo.unknown", p.client, SCTP_DEFAULT_PRINFO, policy);
	int many = new_socket(AF_INET, SOCK_SEQPACKET);
	info = (struct sctp_sndinfo){ .snd_sid = 1, .snd_assoc_id = UNKNOWN_ID };
	SET("one-to-many.unknown-id", many, SCTP_DEFAULT_SNDINFO, info);
	info.snd_assoc_id = SCTP_ALL_ASSOC;
	SET("one-to-many.all", many, SCTP_DEFAULT_SNDINFO, info);
	info.snd_assoc_id = SCTP_CURRENT_ASSOC;
	SET("one-to-many.current", many, SCTP_DEFAULT_SNDINFO, info);
	info.snd_assoc_id = SCTP_ALL_ASSOC;
	GET("one-to-many.get-all", many, SCTP_DEFAULT_SNDINFO, info, "sid=%u", info.snd_sid);
	info.snd_assoc_id = SCTP_FUTURE_ASSOC;
	GET("one-to-many.get-future", many, SCTP_DEFAULT_SNDINFO, info, "sid=%u", info.snd_sid);
}

const struct probe_case ancillary_cases[] = {
	{ "ancillary.sndinfo", sndinfo }, { "ancillary.sndrcv", sndrcv }, { "ancillary.rcvinfo", rcvinfo },
	{ "ancillary.prinfo", prinfo }, { "ancillary.init", init_message }, { "ancillary.destinations", destinations },
	{ "ancillary.defaults", defaults }, { NULL, NULL },
};
