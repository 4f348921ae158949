/* Notifications, and subscriptions to them (RFC 6458, section 6). */
#include "probe.h"

static char large[100000];

static void subscribing(void)
{
	int fd = new_socket(AF_INET, SOCK_SEQPACKET);
	unsigned char events[300] = { 0 };
	static const int lengths[] = { 0, 1, 4, 8, 11, 14, 15, 64 };
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		memset(events, 1, sizeof(events));
		CALL(text("set-%d", lengths[i]), setsockopt(fd, SOL_SCTP, SCTP_EVENTS, events, (socklen_t)lengths[i]));
		memset(events, 0, sizeof(events));
		socklen_t length = sizeof(events);
		if (getsockopt(fd, SOL_SCTP, SCTP_EVENTS, events, &length) != 0)
			fail("SCTP_EVENTS");
		const char *all = "";
		for (int kind = 0; kind < 14; kind++)
			all = text("%s%d", all, events[kind]);
		step(text("set-%d.then", lengths[i]), "get SCTP_EVENTS", text("%u bytes: %s", length, all));
		memset(events, 0, sizeof(events));
		setsockopt(fd, SOL_SCTP, SCTP_EVENTS, events, sizeof(struct sctp_event_subscribe));
	}
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		socklen_t length = (socklen_t)lengths[i];
		CALL(text("get-%d", lengths[i]), getsockopt(fd, SOL_SCTP, SCTP_EVENTS, events, &length));
		step(text("get-%d.length", lengths[i]), "get SCTP_EVENTS", text("%u", length));
	}
	struct sctp_event event = { .se_type = SCTP_ASSOC_CHANGE, .se_on = 1 };
	SET("event", fd, SCTP_EVENT, event);
	GET("event.get", fd, SCTP_EVENT, event, "on=%u", event.se_on);
	event.se_on = 7;
	SET("event.seven", fd, SCTP_EVENT, event);
	GET("event.seven.get", fd, SCTP_EVENT, event, "on=%u", event.se_on);
	event.se_type = SCTP_SN_TYPE_MAX + 1;
	SET("event.unknown-type", fd, SCTP_EVENT, event);
	GET("event.unknown-type.get", fd, SCTP_EVENT, event, "on=%u", event.se_on);
	event.se_type = SCTP_DATA_IO_EVENT;
	SET("event.data-io", fd, SCTP_EVENT, event);
	event.se_type = 1;
	SET("event.low-type", fd, SCTP_EVENT, event);
	event = (struct sctp_event){ UNKNOWN_ID, SCTP_ASSOC_CHANGE, 1 };
	SET("event.unknown-id", fd, SCTP_EVENT, event);
	event.se_assoc_id = SCTP_CURRENT_ASSOC;
	SET("event.current", fd, SCTP_EVENT, event);
	event.se_assoc_id = SCTP_ALL_ASSOC;
	GET("event.get-all", fd, SCTP_EVENT, event, "on=%u", event.se_on);
	SET_LENGTH("event.short", fd, SCTP_EVENT, event, 6);
}

/* All notifications of an association from set-up to end. */
static void life(void)
{
	struct pair p = connected(subscribe_all);
	drain("client.up", p.client);
	drain("server.up", p.server);
	CALL("send", send(p.client, "data", 4, 0));
	drain("server.data", p.server);
	CALL("shutdown", shutdown(p.client, SHUT_WR));
	drain("server.end", p.server);
	drain("client.end", p.client);
	poll_step("client.poll", p.client);
	p = connected(subscribe_all);
	struct linger none = { 1, 0 };
	discard(p.client);
	discard(p.server);
	setsockopt(p.client, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	CALL("abort", close(p.client));
	drain("abort.server", p.server);
	poll_step("abort.poll", p.server);
	GET_INT("abort.error", p.server, SOL_SOCKET, SO_ERROR);
	CALL("abort.send", send(p.server, "x", 1, 0));
	/* One-to-many. */
	p = associated(subscribe_all);
	CALL("many.close", close(p.client));
	drain("many.server", p.server);
}

/* Notifications that do not fit into the buffer. */
static void small_buffer(void)
{
	struct pair p = connected(subscribe_all);
	receive_with("first", p.server, 8, 512, 0);
	receive_with("second", p.server, 8, 512, 0);
	receive_with("third", p.server, 100, 512, 0);
	CALL("send", send(p.client, "data", 4, 0));
	receive_with("peek", p.server, 4, 512, MSG_PEEK);
	drain("rest", p.server);
	int number = -1;
	CALL("shutdown", shutdown(p.client, SHUT_WR));
	wait_for(p.server, POLLIN, SOON);
	CALL("fionread", ioctl(p.server, FIONREAD, &number));
	step("fionread.number", "FIONREAD", text("%d", number));
	char bytes[200];
	step("read", "read", read(p.server, bytes, sizeof(bytes)) > 0 ? "a notification" : "nothing");
}

/* Ends the association with messages that have not been sent. */
static void send_failed(void)
{
	struct pair p = connected(with_small_buffer);
	subscribe(p.client, SCTP_SEND_FAILED, 1);
	subscribe(p.client, SCTP_SEND_FAILED_EVENT, 1);
	struct sctp_sndinfo info = { .snd_sid = 2, .snd_ppid = htonl(99), .snd_context = 1234 };
	struct sctp_assoc_value segment = { 0, 1000 };
	SET("segment", p.client, SCTP_MAXSEG, segment);
	/* More than the window of the peer, who does not read. */
	fill(p.client);
	SET_INT("sndbuf", p.client, SOL_SOCKET, SO_SNDBUF, 400000);
	CALL("last", send_info(p.client, NULL, "the last one", info));
	struct linger none = { 1, 0 };
	setsockopt(p.server, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	CALL("abort", close(p.server));
	/* Whether messages in flight are among them depends on when the peer acknowledged the last packet. */
	bool has_new = false, has_old = false, is_unsent = false;
	while (wait_for(p.client, POLLIN, QUIET)) {
		char bytes[4096];
		struct iovec part = { bytes, sizeof(bytes) };
		struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
		if (recvmsg(p.client, &message, MSG_DONTWAIT) <= 0)
			break;
		union sctp_notification *n = (union sctp_notification *)bytes;
		has_new |= n->sn_header.sn_type == SCTP_SEND_FAILED_EVENT;
		has_old |= n->sn_header.sn_type == SCTP_SEND_FAILED;
		is_unsent |= n->sn_header.sn_flags == SCTP_DATA_UNSENT;
	}
	step("kinds", "notifications", text("new=%d old=%d unsent=%d", has_new, has_old, is_unsent));
	/* One message to a peer that refuses: its notification as a whole. */
	int many = new_socket(AF_INET, SOCK_SEQPACKET), unused = bound(SOCK_STREAM, "127.0.0.1");
	struct sockaddr_in nowhere = v4("127.0.0.1", port_of(unused));
	close(unused);
	subscribe(many, SCTP_SEND_FAILED_EVENT, 1);
	subscribe(many, SCTP_ASSOC_CHANGE, 1);
	CALL("refused-new", send_info(many, &nowhere, "never sent", info));
	drain("refused-new.events", many);
	subscribe(many, SCTP_SEND_FAILED_EVENT, 0);
	subscribe(many, SCTP_SEND_FAILED, 1);
	CALL("refused-old", send_info(many, &nowhere, "never sent", info));
	drain("refused-old.events", many);
	subscribe(many, SCTP_SEND_FAILED_EVENT, 1);
	CALL("refused-both", send_info(many, &nowhere, "never sent", info));
	drain("refused-both.events", many);
	subscribe(many, SCTP_SEND_FAILED, 0);
	subscribe(many, SCTP_ASSOC_CHANGE, 0);
	for (int i = 1; i <= 2; i++)
		CALL(text("refused-two.%d", i), send_info(many, &nowhere, text("message %d", i), info));
	drain("refused-two.events", many);
}

static void dry(void)
{
	struct pair p = connected(NULL);
	subscribe(p.client, SCTP_SENDER_DRY_EVENT, 1);
	drain("subscribed", p.client);
	subscribe(p.client, SCTP_SENDER_DRY_EVENT, 1);
	drain("again", p.client);
	CALL("send", send(p.client, "data", 4, 0));
	drain("sent", p.client);
	subscribe(p.client, SCTP_SENDER_DRY_EVENT, 0);
	CALL("send-unsubscribed", send(p.client, "data", 4, 0));
	drain("unsubscribed", p.client);
	struct sctp_event event = { .se_type = SCTP_SENDER_DRY_EVENT, .se_on = 1 };
	SET("event", p.client, SCTP_EVENT, event);
	drain("event", p.client);
}

static void with_adaptation(int fd)
{
	struct sctp_setadaptation layer = { 4711 };
	setsockopt(fd, SOL_SCTP, SCTP_ADAPTATION_LAYER, &layer, sizeof(layer));
	subscribe(fd, SCTP_ADAPTATION_INDICATION, 1);
	subscribe(fd, SCTP_ASSOC_CHANGE, 1);
}

static void adaptation(void)
{
	struct pair p = connected(with_adaptation);
	drain("client", p.client);
	drain("server", p.server);
	struct sctp_setadaptation layer = { 0 };
	GET("get", p.client, SCTP_ADAPTATION_LAYER, layer, "%u", layer.ssb_adaptation_ind);
	SET_LENGTH("short", p.client, SCTP_ADAPTATION_LAYER, layer, 2);
}

/* A message larger than the receive buffer is delivered in parts; the association ends before its end. */
static void partial_delivery(void)
{
	int listener = listening(SOCK_STREAM), client = new_socket(AF_INET, SOCK_STREAM), size = 20000;
	struct sockaddr_in address = v4("127.0.0.1", port_of(listener));
	setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	subscribe(listener, SCTP_PARTIAL_DELIVERY_EVENT, 1);
	int large_buffer = 400000;
	setsockopt(client, SOL_SOCKET, SO_SNDBUF, &large_buffer, sizeof(large_buffer));
	struct sctp_assoc_value segment = { 0, 1000 };
	setsockopt(client, SOL_SCTP, SCTP_MAXSEG, &segment, sizeof(segment));
	if (connect(client, SA(address)) != 0)
		fail("connect");
	int server = accept(listener, NULL, NULL);
	SET_INT("point", server, SOL_SCTP, SCTP_PARTIAL_DELIVERY_POINT, 4000);
	GET_INT("point.get", server, SOL_SCTP, SCTP_PARTIAL_DELIVERY_POINT);
	for (size_t i = 0; i < sizeof(large); i++)
		large[i] = (char)(i % 251);
	CALL("send", send(client, large, sizeof(large), 0));
	wait_for(server, POLLIN, SOON);
	pause_ms(200);
	char part[1000];
	struct iovec place = { part, sizeof(part) };
	struct msghdr message = { .msg_iov = &place, .msg_iovlen = 1 };
	CALL("first-part", recvmsg(server, &message, MSG_DONTWAIT));
	step("first-part.flags", "recvmsg", flags_text(message.msg_flags));
	struct linger none = { 1, 0 };
	setsockopt(client, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	CALL("abort", close(client));
	pause_ms(100);
	bool has_notification = false;
	ssize_t length;
	size_t total = sizeof(part);
	while (errno = 0, wait_for(server, POLLIN, QUIET) && (length = recvmsg(server, &message, MSG_DONTWAIT)) > 0) {
		if (message.msg_flags & MSG_NOTIFICATION) {
			has_notification = true;
			step("notification", "recvmsg", notification_text(part, (size_t)length));
		} else {
			total += (size_t)length;
		}
	}
	step("ends", "recvmsg", text("%s, %s of the message, %s", error_name(errno), total < sizeof(large) ? "a part" : "all",
				    has_notification ? "notified" : "not notified"));
}

/* Notifications to a socket that does not read. */
static void subscription_of_one(void)
{
	struct pair p = associated(NULL);
	int other = bound(SOCK_SEQPACKET, "127.0.0.1");
	if (sendto(other, "other", 5, 0, SA(p.server_address)) != 5)
		fail("sendto");
	discard(p.server);
	struct sctp_event event = { p.server_id, SCTP_SHUTDOWN_EVENT, 1 };
	SET("one", p.server, SCTP_EVENT, event);
	GET("one.get", p.server, SCTP_EVENT, event, "on=%u", event.se_on);
	event.se_assoc_id = 0;
	GET("future.get", p.server, SCTP_EVENT, event, "on=%u", event.se_on);
	CALL("close-other", close(other));
	drain("other", p.server);
	CALL("close-one", close(p.client));
	drain("one.events", p.server);
}

const struct probe_case notification_cases[] = {
	{ "notify.subscribe", subscribing }, { "notify.life", life }, { "notify.small-buffer", small_buffer },
	{ "notify.send-failed", send_failed }, { "notify.dry", dry }, { "notify.adaptation", adaptation },
	{ "notify.partial-delivery", partial_delivery }, { "notify.subscription-of-one", subscription_of_one },
	{ NULL, NULL },
};
