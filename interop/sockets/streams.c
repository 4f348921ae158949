/* Stream reconfiguration (RFC 6525), partial reliability (RFC 7496), schedulers and interleaving (RFC 8260). */
#include "probe.h"

static char large[60000];

static void with_reconfiguration(int fd)
{
	struct sctp_assoc_value all = { 0, SCTP_ENABLE_STRRESET_MASK };
	int on = 1;
	setsockopt(fd, SOL_SCTP, SCTP_ENABLE_STREAM_RESET, &all, sizeof(all));
	setsockopt(fd, SOL_SCTP, SCTP_RECVRCVINFO, &on, sizeof(on));
	subscribe(fd, SCTP_STREAM_RESET_EVENT, 1);
	subscribe(fd, SCTP_ASSOC_RESET_EVENT, 1);
	subscribe(fd, SCTP_STREAM_CHANGE_EVENT, 1);
}

static int reset(int fd, int flags, int number, int stream)
{
	char buffer[sizeof(struct sctp_reset_streams) + 2 * sizeof(uint16_t)] = { 0 };
	struct sctp_reset_streams *request = (struct sctp_reset_streams *)buffer;
	request->srs_flags = (uint16_t)flags;
	request->srs_number_streams = (uint16_t)number;
	for (int i = 0; i < number && i < 2; i++)
		request->srs_stream_list[i] = (uint16_t)(stream + i);
	return setsockopt(fd, SOL_SCTP, SCTP_RESET_STREAMS, request, (socklen_t)(sizeof(*request) + (size_t)number * sizeof(uint16_t)));
}

static void resetting(void)
{
	struct pair p = connected(with_reconfiguration);
	struct sctp_sndinfo info = { .snd_sid = 1 };
	for (int i = 1; i <= 2; i++)
		CALL(text("before-%d", i), send_info(p.client, NULL, "before", info));
	drain("before", p.server);
	CALL("outgoing", reset(p.client, SCTP_STREAM_RESET_OUTGOING, 1, 1));
	drain("outgoing.client", p.client);
	drain("outgoing.server", p.server);
	CALL("after", send_info(p.client, NULL, "after", info));
	drain("after", p.server);
	CALL("incoming", reset(p.client, SCTP_STREAM_RESET_INCOMING, 1, 2));
	drain("incoming.client", p.client);
	drain("incoming.server", p.server);
	CALL("both", reset(p.client, SCTP_STREAM_RESET_OUTGOING | SCTP_STREAM_RESET_INCOMING, 2, 0));
	drain("both.client", p.client);
	drain("both.server", p.server);
	CALL("all-outgoing", reset(p.client, SCTP_STREAM_RESET_OUTGOING, 0, 0));
	drain("all-outgoing.client", p.client);
	drain("all-outgoing.server", p.server);
	CALL("no-direction", reset(p.client, 0, 1, 1));
	CALL("unknown-flags", reset(p.client, 0x80, 1, 1));
	CALL("unknown-stream", reset(p.client, SCTP_STREAM_RESET_OUTGOING, 1, 5000));
	struct sctp_reset_streams wrong = { .srs_flags = SCTP_STREAM_RESET_OUTGOING, .srs_number_streams = 3 };
	SET("wrong-number", p.client, SCTP_RESET_STREAMS, wrong);
	sctp_assoc_t id = 0;
	SET("association", p.client, SCTP_RESET_ASSOC, id);
	drain("association.client", p.client);
	drain("association.server", p.server);
	CALL("association.send", send_info(p.client, NULL, "new numbers", info));
	drain("association.recv", p.server);
	/* Not enabled. */
	p = connected(NULL);
	CALL("disabled", reset(p.client, SCTP_STREAM_RESET_OUTGOING, 1, 1));
	SET("disabled.association", p.client, SCTP_RESET_ASSOC, id);
	struct sctp_add_streams add = { 0, 1, 1 };
	SET("disabled.add", p.client, SCTP_ADD_STREAMS, add);
	/* Enabled at one side only. */
	struct sctp_assoc_value all = { 0, SCTP_ENABLE_STRRESET_MASK };
	SET("enable-connected", p.client, SCTP_ENABLE_STREAM_RESET, all);
	subscribe(p.client, SCTP_STREAM_RESET_EVENT, 1);
	subscribe(p.client, SCTP_ASSOC_RESET_EVENT, 1);
	subscribe(p.client, SCTP_STREAM_CHANGE_EVENT, 1);
	CALL("denied", reset(p.client, SCTP_STREAM_RESET_OUTGOING, 1, 1));
	drain("denied.client", p.client);
	CALL("denied-incoming", reset(p.client, SCTP_STREAM_RESET_INCOMING, 1, 1));
	drain("denied-incoming.client", p.client);
	int unconnected = new_socket(AF_INET, SOCK_STREAM);
	CALL("unconnected", reset(unconnected, SCTP_STREAM_RESET_OUTGOING, 1, 1));
}

static void adding(void)
{
	struct pair p = connected(with_reconfiguration);
	struct sctp_status status = { 0 };
	GET("before", p.client, SCTP_STATUS, status, "in=%u out=%u", status.sstat_instrms, status.sstat_outstrms);
	struct sctp_add_streams add = { 0, 0, 3 };
	SET("out", p.client, SCTP_ADD_STREAMS, add);
	drain("out.client", p.client);
	drain("out.server", p.server);
	GET("out.status", p.client, SCTP_STATUS, status, "in=%u out=%u", status.sstat_instrms, status.sstat_outstrms);
	GET("out.server-status", p.server, SCTP_STATUS, status, "in=%u out=%u", status.sstat_instrms, status.sstat_outstrms);
	struct sctp_sndinfo info = { .snd_sid = (uint16_t)(status.sstat_instrms - 1) };
	CALL("out.send", send_info(p.client, NULL, "on the last", info));
	drain("out.recv", p.server);
	add = (struct sctp_add_streams){ 0, 2, 0 };
	SET("in", p.client, SCTP_ADD_STREAMS, add);
	drain("in.client", p.client);
	drain("in.server", p.server);
	add = (struct sctp_add_streams){ 0, 1, 1 };
	SET("both", p.client, SCTP_ADD_STREAMS, add);
	drain("both.client", p.client);
	drain("both.server", p.server);
	add = (struct sctp_add_streams){ 0, 0, 0 };
	SET("none", p.client, SCTP_ADD_STREAMS, add);
	add = (struct sctp_add_streams){ 0, 0, 65535 };
	SET("too-many", p.client, SCTP_ADD_STREAMS, add);
	SET_LENGTH("short", p.client, SCTP_ADD_STREAMS, add, 6);
}

static void negotiated(void)
{
	int listener = bound(SOCK_STREAM, "127.0.0.1"), client = new_socket(AF_INET, SOCK_STREAM);
	struct sctp_initmsg few = { .sinit_num_ostreams = 4, .sinit_max_instreams = 3 }, many = { .sinit_num_ostreams = 100 };
	SET("server", listener, SCTP_INITMSG, few);
	SET("client", client, SCTP_INITMSG, many);
	CALL("listen", listen(listener, 1));
	struct sockaddr_in address = v4("127.0.0.1", port_of(listener));
	CALL("connect", connect(client, SA(address)));
	struct sctp_status status = { 0 };
	GET("status", client, SCTP_STATUS, status, "in=%u out=%u", status.sstat_instrms, status.sstat_outstrms);
	CALL("last-stream", send_info(client, NULL, "x", (struct sctp_sndinfo){ .snd_sid = 2 }));
	CALL("beyond", send_info(client, NULL, "x", (struct sctp_sndinfo){ .snd_sid = 3 }));
}

static void partial_reliability(void)
{
	struct pair p = connected(with_small_buffer);
	struct sctp_assoc_value value = { 0, 0 };
	GET("supported", p.client, SCTP_PR_SUPPORTED, value, "%u", value.assoc_value);
	/* A peer that does not read, messages that expire. */
	struct sctp_assoc_value segment = { 0, 1000 };
	setsockopt(p.client, SOL_SCTP, SCTP_MAXSEG, &segment, sizeof(segment));
	subscribe(p.client, SCTP_SEND_FAILED_EVENT, 1);
	SET_INT("sndbuf", p.client, SOL_SOCKET, SO_SNDBUF, 20000);
	fill(p.client);
	SET_INT("larger-sndbuf", p.client, SOL_SOCKET, SO_SNDBUF, 400000);
	struct sctp_prinfo timed = { SCTP_PR_SCTP_TTL, 100 };
	CALL("timed", send_control(p.client, NULL, "expires", SCTP_PRINFO, &timed, sizeof(timed)));
	pause_ms(500);
	CALL("next", send(p.client, "next", 4, MSG_DONTWAIT));
	drain("blocked", p.client);
	/* The window opens when the sender probes it. */
	ssize_t length = 1;
	for (int i = 0; i < 1000 && length != 4; i++) {
		wait_for(p.server, POLLIN, 5000);
		length = recv(p.server, large, sizeof(large), MSG_DONTWAIT);
	}
	step("next.recv", "recv", text("%zd", length));
	drain("expired", p.client);
	struct sctp_prstatus status = { .sprstat_policy = SCTP_PR_SCTP_TTL };
	GET("status", p.client, SCTP_PR_ASSOC_STATUS, status, "unsent=%llu sent=%llu", (unsigned long long)status.sprstat_abandoned_unsent,
	    (unsigned long long)status.sprstat_abandoned_sent);
	GET("stream-status", p.client, SCTP_PR_STREAM_STATUS, status, "unsent=%llu sent=%llu",
	    (unsigned long long)status.sprstat_abandoned_unsent, (unsigned long long)status.sprstat_abandoned_sent);
	status.sprstat_policy = SCTP_PR_SCTP_ALL;
	GET("status.all", p.client, SCTP_PR_ASSOC_STATUS, status, "unsent=%llu", (unsigned long long)status.sprstat_abandoned_unsent);
	status.sprstat_policy = 0;
	GET("status.none", p.client, SCTP_PR_ASSOC_STATUS, status, "-");
	status.sprstat_policy = 0x100;
	GET("status.unknown", p.client, SCTP_PR_ASSOC_STATUS, status, "-");
	status = (struct sctp_prstatus){ .sprstat_policy = SCTP_PR_SCTP_TTL, .sprstat_sid = 5000 };
	GET("stream-status.unknown", p.client, SCTP_PR_STREAM_STATUS, status, "-");
	int fd = new_socket(AF_INET, SOCK_STREAM);
	GET("unconnected", fd, SCTP_PR_ASSOC_STATUS, status, "-");
}

static void schedulers(void)
{
	struct pair p = connected(NULL);
	struct sctp_assoc_value value = { 0, 0 };
	struct sctp_stream_value weight = { 0, 1, 0 };
	GET("default", p.client, SCTP_STREAM_SCHEDULER, value, "%u", value.assoc_value);
	GET("value.default", p.client, SCTP_STREAM_SCHEDULER_VALUE, weight, "%u", weight.stream_value);
	weight.stream_value = 7;
	SET("value.fcfs", p.client, SCTP_STREAM_SCHEDULER_VALUE, weight);
	GET("value.fcfs.get", p.client, SCTP_STREAM_SCHEDULER_VALUE, weight, "%u", weight.stream_value);
	weight.stream_value = 7;
	value.assoc_value = SCTP_SS_PRIO;
	SET("priority", p.client, SCTP_STREAM_SCHEDULER, value);
	SET("value.priority", p.client, SCTP_STREAM_SCHEDULER_VALUE, weight);
	GET("value.priority.get", p.client, SCTP_STREAM_SCHEDULER_VALUE, weight, "%u", weight.stream_value);
	weight.stream_id = 5000;
	SET("value.unknown-stream", p.client, SCTP_STREAM_SCHEDULER_VALUE, weight);
	GET("value.unknown-stream.get", p.client, SCTP_STREAM_SCHEDULER_VALUE, weight, "%u", weight.stream_value);
	value.assoc_value = SCTP_SS_RR;
	SET("round-robin", p.client, SCTP_STREAM_SCHEDULER, value);
	weight.stream_id = 1;
	weight.stream_value = 0;
	GET("value.round-robin", p.client, SCTP_STREAM_SCHEDULER_VALUE, weight, "%u", weight.stream_value);
	weight.stream_value = 9;
	SET("value.round-robin.set", p.client, SCTP_STREAM_SCHEDULER_VALUE, weight);
	weight.stream_value = 0;
	GET("value.round-robin.get", p.client, SCTP_STREAM_SCHEDULER_VALUE, weight, "%u", weight.stream_value);
	value.assoc_value = 3;
	SET("unknown", p.client, SCTP_STREAM_SCHEDULER, value);
	for (int i = 0; i < 3; i++)
		CALL(text("send-%d", i), send_info(p.client, NULL, text("on %d", i), (struct sctp_sndinfo){ .snd_sid = (uint16_t)i }));
	drain("recv", p.server);
	int fd = new_socket(AF_INET, SOCK_STREAM);
	weight.stream_value = 3;
	SET("value.unconnected", fd, SCTP_STREAM_SCHEDULER_VALUE, weight);
	GET("value.unconnected.get", fd, SCTP_STREAM_SCHEDULER_VALUE, weight, "%u", weight.stream_value);
}

static void with_interleaving(int fd)
{
	int on = 1;
	struct sctp_assoc_value yes = { 0, 1 };
	setsockopt(fd, SOL_SCTP, SCTP_FRAGMENT_INTERLEAVE, &on, sizeof(on));
	setsockopt(fd, SOL_SCTP, SCTP_INTERLEAVING_SUPPORTED, &yes, sizeof(yes));
	setsockopt(fd, SOL_SCTP, SCTP_RECVRCVINFO, &on, sizeof(on));
}

static void interleaving(void)
{
	struct pair p = connected(with_interleaving);
	struct sctp_assoc_value value = { 0, 0 };
	GET("supported", p.client, SCTP_INTERLEAVING_SUPPORTED, value, "%u", value.assoc_value);
	CALL("small", send_info(p.client, NULL, "small", (struct sctp_sndinfo){ .snd_sid = 1, .snd_ppid = htonl(5) }));
	drain("small", p.server);
	struct sctp_assoc_value segment = { 0, 1000 };
	SET("segment", p.client, SCTP_MAXSEG, segment);
	for (size_t i = 0; i < sizeof(large); i++)
		large[i] = (char)(i % 251);
	CALL("large", send(p.client, large, 10000, 0));
	size_t total = 0;
	int flags = 0;
	while (total < 10000 && wait_for(p.server, POLLIN, SOON)) {
		char buffer[10000];
		struct iovec part = { buffer, sizeof(buffer) };
		struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
		ssize_t length = recvmsg(p.server, &message, MSG_DONTWAIT);
		if (length <= 0)
			break;
		total += (size_t)length;
		flags = message.msg_flags;
	}
	step("large.recv", "recvmsg", text("%zu bytes, last flags=%s", total, flags_text(flags)));
	CALL("unordered", send_info(p.client, NULL, "unordered", (struct sctp_sndinfo){ .snd_flags = SCTP_UNORDERED }));
	drain("unordered", p.server);
	/* One side only. */
	int listener = bound(SOCK_STREAM, "127.0.0.1"), client = new_socket(AF_INET, SOCK_STREAM);
	with_interleaving(client);
	CALL("one-side.listen", listen(listener, 1));
	struct sockaddr_in address = v4("127.0.0.1", port_of(listener));
	CALL("one-side.connect", connect(client, SA(address)));
	GET("one-side.supported", client, SCTP_INTERLEAVING_SUPPORTED, value, "%u", value.assoc_value);
}

const struct probe_case stream_cases[] = {
	{ "stream.reset", resetting }, { "stream.add", adding }, { "stream.negotiated", negotiated },
	{ "stream.partial-reliability", partial_reliability }, { "stream.scheduler", schedulers },
	{ "stream.interleaving", interleaving }, { NULL, NULL },
};
