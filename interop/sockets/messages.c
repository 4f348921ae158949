/* Sending and receiving on one-to-one sockets (RFC 6458, sections 4.1 and 3.1.4). */
#include "probe.h"

enum { LARGE = 100000 };
static char large[1 << 20];

static void fill_pattern(void)
{
	for (size_t i = 0; i < sizeof(large); i++)
		large[i] = (char)(i % 251);
}

static void plain(void)
{
	struct pair p = connected(NULL);
	CALL("send", send(p.client, "one", 3, 0));
	receive("recv", p.server);
	CALL("write", write(p.client, "second", 6));
	char buffer[64] = "";
	CALL("read", read(p.server, buffer, sizeof(buffer)));
	struct iovec parts[2] = { { "ab", 2 }, { "cde", 3 } };
	CALL("writev", writev(p.client, parts, 2));
	char first[2], second[10];
	struct iovec places[2] = { { first, 2 }, { second, 10 } };
	CALL("readv", readv(p.server, places, 2));
	CALL("sendto-peer", sendto(p.client, "to", 2, 0, SA(p.server_address)));
	receive("sendto-peer.recv", p.server);
	struct sockaddr_in other = v4("127.0.0.9", ntohs(p.server_address.sin_port)), port = v4("127.0.0.1", 9);
	CALL("sendto-other-address", sendto(p.client, "to", 2, 0, SA(other)));
	CALL("sendto-other-port", sendto(p.client, "to", 2, 0, SA(port)));
	CALL("sendto-short", sendto(p.client, "to", 2, 0, ADDRESS(other), 4));
	drain("sendto-other", p.server);
	CALL("empty", send(p.client, "", 0, 0));
	struct msghdr none = { 0 };
	CALL("no-vector", sendmsg(p.client, &none, 0));
	CALL("oob", send(p.client, "x", 1, MSG_OOB));
	CALL("eor", send(p.client, "eor", 3, MSG_EOR));
	CALL("more", send(p.client, "more", 4, MSG_MORE));
	CALL("confirm", send(p.client, "c", 1, MSG_CONFIRM | MSG_DONTROUTE));
	drain("flags", p.server);
	CALL("recv-none", recv(p.server, buffer, sizeof(buffer), MSG_DONTWAIT));
	CALL("recv-oob", recv(p.server, buffer, sizeof(buffer), MSG_OOB | MSG_DONTWAIT));
	CALL("recv-errqueue", recv(p.server, buffer, sizeof(buffer), MSG_ERRQUEUE | MSG_DONTWAIT));
	CALL("send-back", send(p.server, "back", 4, 0));
	receive("send-back.recv", p.client);
	struct sockaddr_in from = { 0 };
	socklen_t length = 6;
	CALL("send-from", send(p.client, "from", 4, 0));
	wait_for(p.server, POLLIN, SOON);
	CALL("recvfrom", recvfrom(p.server, buffer, sizeof(buffer), 0, ADDRESS(from), &length));
	step("recvfrom.length", "recvfrom", text("%u", length));
	CALL("lseek", lseek(p.server, 0, SEEK_SET));
	CALL("pread", pread(p.server, buffer, 1, 0));
}

static void partial_read(void)
{
	struct pair p = connected(NULL);
	CALL("send", send(p.client, "0123456789", 10, 0));
	CALL("send-next", send(p.client, "next", 4, 0));
	receive_with("first", p.server, 4, 512, 0);
	receive_with("second", p.server, 4, 512, 0);
	receive_with("third", p.server, 4, 512, 0);
	receive_with("next", p.server, 4, 512, 0);
	CALL("send-again", send(p.client, "0123456789", 10, 0));
	receive_with("trunc-flag", p.server, 4, 512, MSG_TRUNC);
	receive_with("trunc-flag.rest", p.server, 100, 512, MSG_TRUNC);
	CALL("send-zero", send(p.client, "0123", 4, 0));
	receive_with("zero-size", p.server, 0, 512, 0);
	receive_with("zero-size.rest", p.server, 100, 512, 0);
	CALL("send-exact", send(p.client, "0123", 4, 0));
	receive_with("exact", p.server, 4, 512, 0);
	CALL("send-waitall", send(p.client, "0123", 4, 0));
	CALL("send-waitall-next", send(p.client, "4567", 4, 0));
	receive_with("waitall", p.server, 8, 512, MSG_WAITALL);
}

static void peek(void)
{
	struct pair p = connected(NULL);
	CALL("send", send(p.client, "0123456789", 10, 0));
	CALL("send-next", send(p.client, "next", 4, 0));
	receive_with("whole", p.server, 100, 512, MSG_PEEK);
	receive_with("part", p.server, 4, 512, MSG_PEEK);
	receive_with("part-again", p.server, 4, 512, MSG_PEEK);
	receive_with("read-part", p.server, 4, 512, 0);
	receive_with("rest", p.server, 100, 512, MSG_PEEK);
	receive_with("read-rest", p.server, 100, 512, 0);
	receive_with("next", p.server, 100, 512, MSG_PEEK);
	receive_with("read-next", p.server, 100, 512, 0);
	receive_with("nothing", p.server, 100, 512, MSG_PEEK);
	int value = 0;
	socklen_t length = sizeof(value);
	CALL("peek-off", getsockopt(p.server, SOL_SOCKET, SO_PEEK_OFF, &value, &length));
	step("peek-off.value", "get SO_PEEK_OFF", text("%d", value));
	SET_INT("set-peek-off", p.server, SOL_SOCKET, SO_PEEK_OFF, 0);
}

static void large_messages(void)
{
	struct pair p = connected(NULL);
	fill_pattern();
	SET_INT("sndbuf", p.client, SOL_SOCKET, SO_SNDBUF, 200000);
	GET_INT("sndbuf.get", p.client, SOL_SOCKET, SO_SNDBUF);
	CALL("send", send(p.client, large, LARGE, 0));
	char *buffer = malloc(LARGE);
	size_t total = 0;
	int flags = 0, parts = 0;
	while (total < LARGE && wait_for(p.server, POLLIN, SOON)) {
		struct iovec part = { buffer + total, LARGE - total };
		struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
		ssize_t length = recvmsg(p.server, &message, MSG_DONTWAIT);
		if (length <= 0)
			break;
		total += (size_t)length;
		flags = message.msg_flags;
		parts++;
	}
	step("recv", "recvmsg", text("%zu bytes, %s, last flags=%s, %s", total, memcmp(buffer, large, total) == 0 ? "equal" : "not equal",
				    flags_text(flags), parts == 1 ? "one part" : "parts"));
	SET_INT("small-sndbuf", p.client, SOL_SOCKET, SO_SNDBUF, 5000);
	GET_INT("small-sndbuf.get", p.client, SOL_SOCKET, SO_SNDBUF);
	CALL("larger-than-sndbuf", send(p.client, large, 10001, 0));
	CALL("as-large-as-sndbuf", send(p.client, large, 10000, MSG_DONTWAIT));
	drain("as-large-as-sndbuf", p.server);
	CALL("largest", send(p.client, large, sizeof(large), 0));
	SET_INT("whole", p.client, SOL_SCTP, SCTP_DISABLE_FRAGMENTS, 1);
	struct sctp_assoc_value segment = { 0, 500 };
	SET("segment", p.client, SCTP_MAXSEG, segment);
	CALL("whole.fits", send(p.client, large, 400, 0));
	CALL("whole.does-not-fit", send(p.client, large, 2000, 0));
	drain("whole", p.server);
	SET_INT("fragments", p.client, SOL_SCTP, SCTP_DISABLE_FRAGMENTS, 0);
	CALL("fragments.send", send(p.client, large, 2000, 0));
	drain("fragments", p.server);
	free(buffer);
}

/* Several calls at once. */
static void several(void)
{
	struct pair p = connected(NULL);
	struct iovec parts[3] = { { "one", 3 }, { "second", 6 }, { "third", 5 } };
	struct mmsghdr messages[3] = { 0 };
	for (int i = 0; i < 3; i++) {
		messages[i].msg_hdr.msg_iov = &parts[i];
		messages[i].msg_hdr.msg_iovlen = 1;
	}
	CALL("sendmmsg", sendmmsg(p.client, messages, 3, 0));
	step("sendmmsg.lengths", "sendmmsg", text("%u %u %u", messages[0].msg_len, messages[1].msg_len, messages[2].msg_len));
	pause_ms(200);
	char buffers[4][16];
	struct iovec places[4];
	struct mmsghdr received[4] = { 0 };
	for (int i = 0; i < 4; i++) {
		places[i] = (struct iovec){ buffers[i], sizeof(buffers[i]) };
		received[i].msg_hdr.msg_iov = &places[i];
		received[i].msg_hdr.msg_iovlen = 1;
	}
	CALL("recvmmsg", recvmmsg(p.server, received, 4, MSG_DONTWAIT, NULL));
	for (int i = 0; i < 3; i++)
		step(text("recvmmsg.%d", i + 1), "recvmmsg", text("%u flags=%s", received[i].msg_len, flags_text(received[i].msg_hdr.msg_flags)));
	CALL("recvmmsg-none", recvmmsg(p.server, received, 4, MSG_DONTWAIT, NULL));
}

static volatile sig_atomic_t interrupted;

static void interrupt(int number)
{
	(void)number;
	interrupted = 1;
}

static void waiting(void)
{
	struct pair p = connected(with_small_buffer);
	fill_pattern();
	char buffer[16];
	struct timeval limit = { 0, 100000 };
	CALL("limit", setsockopt(p.server, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)));
	CALL("recv-limit", recv(p.server, buffer, sizeof(buffer), 0));
	SET_INT("rcvlowat", p.server, SOL_SOCKET, SO_RCVLOWAT, 100);
	CALL("accept-limit.set", setsockopt(p.listener, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)));
	CALL("accept-limit", accept(p.listener, NULL, NULL));
	struct timeval forever = { 0, 0 };
	setsockopt(p.server, SOL_SOCKET, SO_RCVTIMEO, &forever, sizeof(forever));
	struct sigaction action = { .sa_handler = interrupt };
	sigaction(SIGUSR1, &action, NULL);
	pid_t self = getpid(), child = fork();
	if (child == 0) {
		pause_ms(200);
		kill(self, SIGUSR1);
		_exit(0);
	}
	CALL("recv-interrupted", recv(p.server, buffer, sizeof(buffer), 0));
	step("interrupted", "the handler", interrupted ? "ran" : "did not run");
	waitpid(child, NULL, 0);
	child = fork();
	if (child == 0) {
		pause_ms(200);
		ssize_t sent = send(p.client, "late", 4, 0);
		_exit(sent != 4);
	}
	CALL("recv-waits", recv(p.server, buffer, sizeof(buffer), 0));
	waitpid(child, NULL, 0);
	/* A full send buffer. */
	SET_INT("sndbuf", p.client, SOL_SOCKET, SO_SNDBUF, 20000);
	int number = fill(p.client);
	CALL("full-send", send(p.client, large, 1000, MSG_DONTWAIT));
	poll_step("full", p.client);
	CALL("send-limit.set", setsockopt(p.client, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)));
	CALL("send-limit", send(p.client, large, 1000, 0));
	CALL("send-waits.set", setsockopt(p.client, SOL_SOCKET, SO_SNDTIMEO, &forever, sizeof(forever)));
	int received = 0;
	while (wait_for(p.server, POLLIN, QUIET) && recv(p.server, large, sizeof(large), MSG_DONTWAIT) == 1000)
		received++;
	step("received", "recv", received == number ? "as many as were sent" : text("%d of %d", received, number));
	wait_poll_step("room", p.client, POLLOUT);
	CALL("send-room", send(p.client, large, 1000, MSG_DONTWAIT));
}

static void fionread(void)
{
	struct pair p = connected(NULL);
	int number = -1;
	CALL("empty", ioctl(p.server, FIONREAD, &number));
	step("empty.number", "FIONREAD", text("%d", number));
	CALL("send", send(p.client, "hello", 5, 0));
	CALL("send-next", send(p.client, "next one", 8, 0));
	wait_for(p.server, POLLIN, SOON);
	pause_ms(100);
	CALL("two", ioctl(p.server, FIONREAD, &number));
	step("two.number", "FIONREAD", text("%d", number));
	receive_with("part", p.server, 2, 512, 0);
	CALL("rest", ioctl(p.server, FIONREAD, &number));
	step("rest.number", "FIONREAD", text("%d", number));
	receive_with("read-rest", p.server, 100, 512, 0);
	CALL("next", ioctl(p.server, FIONREAD, &number));
	step("next.number", "FIONREAD", text("%d", number));
	CALL("listener", ioctl(p.listener, FIONREAD, &number));
	CALL("outq", ioctl(p.client, TIOCOUTQ, &number));
	CALL("nonblocking", ioctl(p.server, FIONBIO, &(int){ 1 }));
	receive_with("last", p.server, 100, 512, 0);
	CALL("recv", recv(p.server, &(char){ 0 }, 1, 0));
	CALL("unknown", ioctl(p.server, 0x5499, &number));
}

/* The functions of libsctp. */
static void library(void)
{
	struct pair p = connected(NULL);
	int on = 1, flags = 0;
	receive_sndrcv(p.server);
	CALL("sendmsg", sctp_sendmsg(p.client, "abc", 3, NULL, 0, htonl(7), SCTP_UNORDERED, 2, 0, 9));
	struct sctp_sndrcvinfo info = { 0 };
	char buffer[64];
	struct sockaddr_in from;
	socklen_t from_length = sizeof(from);
	wait_for(p.server, POLLIN, SOON);
	CALL("recvmsg", sctp_recvmsg(p.server, buffer, sizeof(buffer), ADDRESS(from), &from_length, &info, &flags));
	step("recvmsg.info", "sctp_recvmsg", text("sid=%u ppid=%u flags=%u from %s, %s", info.sinfo_stream, ntohl(info.sinfo_ppid),
						 info.sinfo_flags, address_name(&from, from_length), flags_text(flags)));
	setsockopt(p.server, SOL_SCTP, SCTP_RECVRCVINFO, &on, sizeof(on));
	setsockopt(p.server, SOL_SCTP, SCTP_RECVNXTINFO, &on, sizeof(on));
	subscribe_none(p.server);
	struct sctp_sndrcvinfo out = { .sinfo_stream = 3, .sinfo_ppid = htonl(8) };
	CALL("send", sctp_send(p.client, "defg", 4, &out, 0));
	struct iovec part = { "hijkl", 5 };
	struct sctp_sendv_spa attributes = {
		.sendv_flags = SCTP_SEND_SNDINFO_VALID | SCTP_SEND_PRINFO_VALID,
		.sendv_sndinfo = { .snd_sid = 4, .snd_ppid = htonl(9) }, .sendv_prinfo = { SCTP_PR_SCTP_TTL, 5000 },
	};
	CALL("sendv", sctp_sendv(p.client, &part, 1, NULL, 0, &attributes, sizeof(attributes), SCTP_SENDV_SPA, 0));
	CALL("sendv-plain", sctp_sendv(p.client, &part, 1, NULL, 0, NULL, 0, SCTP_SENDV_NOINFO, 0));
	CALL("sendv-wrong-type", sctp_sendv(p.client, &part, 1, NULL, 0, &attributes, sizeof(attributes), 77, 0));
	pause_ms(200);
	for (int i = 1; i <= 3; i++) {
		struct sctp_recvv_rn both = { 0 };
		struct iovec place = { buffer, sizeof(buffer) };
		socklen_t info_length = sizeof(both);
		unsigned int type = 0;
		flags = 0;
		from_length = sizeof(from);
		CALL(text("recvv-%d", i), sctp_recvv(p.server, &place, 1, ADDRESS(from), &from_length, &both, &info_length, &type, &flags));
		step(text("recvv-%d.info", i), "sctp_recvv",
		     text("type=%u sid=%u ppid=%u next: sid=%u length=%u", type, both.recvv_rcvinfo.rcv_sid, ntohl(both.recvv_rcvinfo.rcv_ppid),
			  both.recvv_nxtinfo.nxt_sid, both.recvv_nxtinfo.nxt_length));
	}
	struct sctp_status status = { 0 };
	socklen_t length = sizeof(status);
	CALL("opt-info", sctp_opt_info(p.client, 0, SCTP_STATUS, &status, &length));
	step("opt-info.state", "sctp_opt_info", text("%d", status.sstat_state));
	CALL("getaddrlen", sctp_getaddrlen(AF_INET6));
}

const struct probe_case message_cases[] = {
	{ "message.plain", plain }, { "message.partial-read", partial_read }, { "message.peek", peek },
	{ "message.large", large_messages }, { "message.several", several }, { "message.waiting", waiting },
	{ "message.fionread", fionread }, { "message.library", library }, { NULL, NULL },
};
