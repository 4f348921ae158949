/* listen, connect, sctp_connectx and accept (RFC 6458, sections 3.1, 4.1 and 9.9). */
#include "probe.h"

static void name_steps(const char *name, int fd)
{
	struct sockaddr_storage address;
	socklen_t length = sizeof(address);
	int result = getsockname(fd, ADDRESS(address), &length);
	step(text("%s.name", name), "getsockname", result == 0 ? address_name(&address, length) : text("-1 %s", error_name(errno)));
	length = sizeof(address);
	result = getpeername(fd, ADDRESS(address), &length);
	step(text("%s.peer", name), "getpeername", result == 0 ? address_name(&address, length) : text("-1 %s", error_name(errno)));
}

static void list_steps(const char *name, int fd, sctp_assoc_t id)
{
	struct sockaddr *list = NULL;
	errno = 0;
	int number = sctp_getladdrs(fd, id, &list);
	step(text("%s.local", name), "sctp_getladdrs", number < 0 ? text("-1 %s", error_name(errno)) : addresses_text(list, number));
	if (number > 0)
		sctp_freeladdrs(list);
	errno = 0;
	number = sctp_getpaddrs(fd, id, &list);
	step(text("%s.remote", name), "sctp_getpaddrs", number < 0 ? text("-1 %s", error_name(errno)) : addresses_text(list, number));
	if (number > 0)
		sctp_freepaddrs(list);
}

static int unused_port(void)
{
	int fd = bound(SOCK_STREAM, "127.0.0.1"), port = port_of(fd);
	close(fd);
	return port;
}

static void basic(void)
{
	int listener = listening(SOCK_STREAM), client = new_socket(AF_INET, SOCK_STREAM);
	struct sockaddr_in address = v4("127.0.0.1", port_of(listener));
	CALL("connect", connect(client, SA(address)));
	wait_poll_step("listener-ready", listener, POLLIN);
	struct sockaddr_storage from;
	socklen_t length = sizeof(from);
	int server = MADE("accept", accept(listener, ADDRESS(from), &length));
	step("accept.address", "accept", address_name(&from, length));
	poll_step("listener-after", listener);
	name_steps("client", client);
	name_steps("server", server);
	list_steps("client", client, 0);
	list_steps("server", server, 0);
	GET_INT("client.error", client, SOL_SOCKET, SO_ERROR);
	GET_INT("server.accepting", server, SOL_SOCKET, SO_ACCEPTCONN);
	CALL("connect-again", connect(client, SA(address)));
	CALL("connect-server", connect(server, SA(address)));
	CALL("connect-listener", connect(listener, SA(address)));
	CALL("listen-client", listen(client, 5));
	CALL("accept-client", accept4(client, NULL, NULL, SOCK_NONBLOCK));
	CALL("bind-client", bind(client, SA(address)));
	poll_step("client-ready", client);
	poll_step("server-ready", server);
	struct sctp_status status = { 0 };
	GET("status", client, SCTP_STATUS, status, "state=%d in=%u out=%u unacked=%u pending=%u primary=%s state=%d",
	    status.sstat_state, status.sstat_instrms, status.sstat_outstrms, status.sstat_unackdata, status.sstat_penddata,
	    address_name(&status.sstat_primary.spinfo_address, sizeof(struct sockaddr_storage)), status.sstat_primary.spinfo_state);
}

static void refused(void)
{
	struct sockaddr_in address = v4("127.0.0.1", unused_port());
	int fd = new_socket(AF_INET, SOCK_STREAM);
	CALL("connect", connect(fd, SA(address)));
	poll_step("after", fd);
	GET_INT("error", fd, SOL_SOCKET, SO_ERROR);
	char byte;
	CALL("recv", recv(fd, &byte, 1, MSG_DONTWAIT));
	CALL("send", send(fd, "x", 1, MSG_DONTWAIT));
	CALL("again", connect(fd, SA(address)));
	int listener = listening(SOCK_STREAM);
	address = v4("127.0.0.1", port_of(listener));
	CALL("then-accepted", connect(fd, SA(address)));
	int six = new_socket(AF_INET6, SOCK_STREAM);
	struct sockaddr_in6 loopback = v6("::1", unused_port());
	CALL("inet6", connect(six, SA(loopback)));
}

static void nonblocking_connect(void)
{
	int listener = listening(SOCK_STREAM), fd = new_socket(AF_INET, SOCK_STREAM);
	nonblocking(fd);
	nonblocking(listener);
	CALL("accept-none", accept(listener, NULL, NULL));
	struct sockaddr_in address = v4("127.0.0.1", port_of(listener));
	poll_step("before", fd);
	CALL("connect", connect(fd, SA(address)));
	wait_poll_step("ready", fd, POLLOUT);
	GET_INT("error", fd, SOL_SOCKET, SO_ERROR);
	CALL("again", connect(fd, SA(address)));
	wait_poll_step("listener", listener, POLLIN);
	int server = MADE("accept", accept(listener, NULL, NULL));
	step("accepted-nonblock", "F_GETFL", fcntl(server, F_GETFL) & O_NONBLOCK ? "O_NONBLOCK" : "0");
	step("accepted-cloexec", "F_GETFD", fcntl(server, F_GETFD) & FD_CLOEXEC ? "FD_CLOEXEC" : "0");
	address = v4("127.0.0.1", unused_port());
	fd = new_socket(AF_INET, SOCK_STREAM);
	nonblocking(fd);
	CALL("refused", connect(fd, SA(address)));
	wait_poll_step("refused.ready", fd, POLLIN | POLLOUT);
	GET_INT("refused.error", fd, SOL_SOCKET, SO_ERROR);
	GET_INT("refused.error-again", fd, SOL_SOCKET, SO_ERROR);
	poll_step("refused.after", fd);
	fd = new_socket(AF_INET, SOCK_STREAM);
	nonblocking(fd);
	CALL("refused-recv", connect(fd, SA(address)));
	wait_for(fd, POLLIN, SOON);
	char byte;
	CALL("refused-recv.recv", recv(fd, &byte, 1, 0));
	CALL("refused-recv.again", recv(fd, &byte, 1, 0));
	CALL("refused-recv.send", send(fd, "x", 1, 0));
}

/* 192.0.2.2 does not answer. */
static void no_answer(void)
{
	struct sockaddr_in address = v4("192.0.2.2", 4242);
	struct sctp_initmsg init = { .sinit_max_attempts = 2, .sinit_max_init_timeo = 100 };
	struct sctp_rtoinfo rto = { .srto_initial = 100, .srto_max = 100, .srto_min = 50 };
	int fd = new_socket(AF_INET, SOCK_STREAM);
	SET("initmsg", fd, SCTP_INITMSG, init);
	SET("rtoinfo", fd, SCTP_RTOINFO, rto);
	CALL("connect", connect(fd, SA(address)));
	GET_INT("error", fd, SOL_SOCKET, SO_ERROR);
	fd = new_socket(AF_INET, SOCK_STREAM);
	setsockopt(fd, SOL_SCTP, SCTP_INITMSG, &init, sizeof(init));
	setsockopt(fd, SOL_SCTP, SCTP_RTOINFO, &rto, sizeof(rto));
	nonblocking(fd);
	CALL("nonblocking", connect(fd, SA(address)));
	CALL("nonblocking.again", connect(fd, SA(address)));
	CALL("nonblocking.send", send(fd, "x", 1, 0));
	char byte;
	CALL("nonblocking.recv", recv(fd, &byte, 1, 0));
	poll_step("nonblocking.poll", fd);
	name_steps("nonblocking", fd);
	wait_poll_step("nonblocking.later", fd, POLLIN);
	GET_INT("nonblocking.error", fd, SOL_SOCKET, SO_ERROR);
	fd = new_socket(AF_INET, SOCK_STREAM);
	struct timeval limit = { 0, 200000 };
	CALL("limit", setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)));
	CALL("limit.connect", connect(fd, SA(address)));
	CALL("limit.again", connect(fd, SA(address)));
	struct sctp_status status = { 0 };
	GET("limit.status", fd, SCTP_STATUS, status, "state=%d", status.sstat_state);
	CALL("limit.close", close(fd));
	int many = new_socket(AF_INET, SOCK_SEQPACKET);
	subscribe_all(many);
	setsockopt(many, SOL_SCTP, SCTP_INITMSG, &init, sizeof(init));
	setsockopt(many, SOL_SCTP, SCTP_RTOINFO, &rto, sizeof(rto));
	CALL("one-to-many.send", sendto(many, "x", 1, 0, SA(address)));
	drain("one-to-many", many);
	struct sockaddr_in nowhere = v4("198.51.100.1", 4242);
	fd = new_socket(AF_INET, SOCK_STREAM);
	setsockopt(fd, SOL_SCTP, SCTP_INITMSG, &init, sizeof(init));
	setsockopt(fd, SOL_SCTP, SCTP_RTOINFO, &rto, sizeof(rto));
	CALL("no-route", connect(fd, SA(nowhere)));
}

static void families(void)
{
	int listener = new_socket(AF_INET6, SOCK_STREAM);
	struct sockaddr_in6 any = v6("::", 0);
	CALL("bind", bind(listener, SA(any)));
	CALL("listen", listen(listener, 5));
	int port = port_of(listener);
	struct sockaddr_in plain = v4("127.0.0.1", port);
	struct sockaddr_in6 six = v6("::1", port), mapped = v6("::ffff:127.0.0.1", port);
	int fd = new_socket(AF_INET, SOCK_STREAM);
	CALL("inet.to-inet6", connect(fd, SA(six)));
	CALL("inet.short", connect(fd, ADDRESS(plain), 4));
	struct sockaddr_in unspecified = plain;
	unspecified.sin_family = AF_UNSPEC;
	CALL("inet.unspecified", connect(fd, SA(unspecified)));
	struct sockaddr_in port0 = v4("127.0.0.1", 0);
	CALL("inet.port-0", connect(fd, SA(port0)));
	struct sockaddr_in broadcast = v4("255.255.255.255", port), group = v4("224.0.0.1", port);
	CALL("inet.broadcast", connect(fd, SA(broadcast)));
	CALL("inet.multicast", connect(fd, SA(group)));
	CALL("inet.connect", connect(fd, SA(plain)));
	name_steps("inet", fd);
	int server = MADE("inet.accept", accept(listener, NULL, NULL));
	name_steps("inet.server", server);
	list_steps("inet.server", server, 0);
	SET_INT("inet.unmapped", server, SOL_SCTP, SCTP_I_WANT_MAPPED_V4_ADDR, 0);
	name_steps("inet.unmapped", server);
	CALL("inet.send", send(fd, "x", 1, 0));
	receive("inet.recv", server);
	fd = new_socket(AF_INET6, SOCK_STREAM);
	CALL("inet6.connect", connect(fd, SA(six)));
	name_steps("inet6", fd);
	list_steps("inet6", fd, 0);
	server = MADE("inet6.accept", accept(listener, NULL, NULL));
	CALL("inet6.send", send(fd, "x", 1, 0));
	receive("inet6.recv", server);
	fd = new_socket(AF_INET6, SOCK_STREAM);
	CALL("mapped.connect", connect(fd, SA(mapped)));
	name_steps("mapped", fd);
	fd = new_socket(AF_INET6, SOCK_STREAM);
	CALL("plain-on-inet6.connect", connect(fd, SA(plain)));
	name_steps("plain-on-inet6", fd);
	fd = new_socket(AF_INET6, SOCK_STREAM);
	SET_INT("only.set", fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	CALL("only.mapped", connect(fd, SA(mapped)));
	CALL("only.plain", connect(fd, SA(plain)));
	CALL("only.inet6", connect(fd, SA(six)));
}

static void connectx(void)
{
	int listener = new_socket(AF_INET, SOCK_STREAM);
	struct sockaddr_in locals[2] = { v4("127.0.0.1", 0), v4("127.0.0.2", 0) };
	CALL("bindx", sctp_bindx(listener, ADDRESS(locals[0]), 2, SCTP_BINDX_ADD_ADDR));
	CALL("listen", listen(listener, 5));
	int port = port_of(listener);
	struct sockaddr_in list[2] = { v4("127.0.0.1", port), v4("127.0.0.2", port) };
	int fd = new_socket(AF_INET, SOCK_STREAM);
	sctp_assoc_t id = 0;
	CALL("empty", sctp_connectx(fd, ADDRESS(list[0]), 0, &id));
	struct sockaddr_in wrong[2] = { list[0], v4("127.0.0.2", port == 40000 ? 40001 : 40000) };
	CALL("two-ports", sctp_connectx(fd, ADDRESS(wrong[0]), 2, &id));
	CALL("short", setsockopt(fd, SOL_SCTP, SCTP_SOCKOPT_CONNECTX, list, 10));
	struct sockaddr_in strange[1] = { list[0] };
	strange[0].sin_family = 77;
	CALL("unknown-family", setsockopt(fd, SOL_SCTP, SCTP_SOCKOPT_CONNECTX, strange, sizeof(strange)));
	CALL("connect", sctp_connectx(fd, ADDRESS(list[0]), 2, &id));
	step("id", "sctp_connectx", association_name(id));
	list_steps("client", fd, id);
	CALL("again", sctp_connectx(fd, ADDRESS(list[0]), 2, &id));
	int server = MADE("accept", accept(listener, NULL, NULL));
	list_steps("server", server, 0);
	fd = new_socket(AF_INET, SOCK_STREAM);
	nonblocking(fd);
	id = 0;
	CALL("nonblocking", sctp_connectx(fd, ADDRESS(list[0]), 2, &id));
	step("nonblocking.id", "sctp_connectx", association_name(id));
	wait_poll_step("nonblocking.ready", fd, POLLOUT);
	fd = new_socket(AF_INET, SOCK_STREAM);
	errno = 0;
	int result = setsockopt(fd, SOL_SCTP, SCTP_SOCKOPT_CONNECTX, list, sizeof(list));
	step("by-setsockopt", "set SCTP_SOCKOPT_CONNECTX", result < 0 ? text("-1 %s", error_name(errno)) : association_name(result));
	list_steps("by-setsockopt", fd, 0);
	fd = new_socket(AF_INET, SOCK_STREAM);
	struct sctp_getaddrs_old request = { 0, sizeof(list), ADDRESS(list[0]) };
	socklen_t length = sizeof(request);
	CALL("by-getsockopt", getsockopt(fd, SOL_SCTP, SCTP_SOCKOPT_CONNECTX3, &request, &length));
	step("by-getsockopt.id", "SCTP_SOCKOPT_CONNECTX3", association_name(request.assoc_id));
	struct sockaddr_in twice[2] = { list[0], list[0] };
	fd = new_socket(AF_INET, SOCK_STREAM);
	CALL("same-address-twice", sctp_connectx(fd, ADDRESS(twice[0]), 2, &id));
	list_steps("same-address-twice", fd, 0);
	int many = new_socket(AF_INET, SOCK_SEQPACKET), many_server = listening(SOCK_SEQPACKET);
	struct sockaddr_in other = v4("127.0.0.1", port_of(many_server));
	CALL("one-to-many", sctp_connectx(many, ADDRESS(other), 1, &id));
	step("one-to-many.id", "sctp_connectx", association_name(id));
	CALL("one-to-many.again", sctp_connectx(many, ADDRESS(other), 1, &id));
	int short_list = 0;
	socklen_t short_length = sizeof(short_list);
	CALL("short-peer-list", getsockopt(many, SOL_SCTP, SCTP_GET_PEER_ADDRS, &short_list, &short_length));
}

/* Addresses of 127.0.0.0/8 that no interface has. */
static void loopback(void)
{
	int listener = bound(SOCK_STREAM, "127.0.0.7"), client = bound(SOCK_STREAM, "127.0.0.8");
	CALL("listen", listen(listener, 5));
	struct sockaddr_in address = v4("127.0.0.7", port_of(listener));
	CALL("connect", connect(client, SA(address)));
	int server = MADE("accept", accept(listener, NULL, NULL));
	list_steps("client", client, 0);
	list_steps("server", server, 0);
	CALL("send", send(client, "data", 4, 0));
	receive("recv", server);
	CALL("answer", send(server, "more", 4, 0));
	receive("answer.recv", client);
	/* Nothing listens. */
	client = new_socket(AF_INET, SOCK_STREAM);
	address = v4("127.0.0.11", unused_port());
	CALL("refused", connect(client, SA(address)));
	/* One-to-many. */
	int many = new_socket(AF_INET, SOCK_SEQPACKET), many_server = bound(SOCK_SEQPACKET, "127.0.0.12");
	CALL("many.listen", listen(many_server, 5));
	address = v4("127.0.0.12", port_of(many_server));
	CALL("many.send", sendto(many, "data", 4, 0, SA(address)));
	receive("many.recv", many_server);
}

/* A listener with all addresses, and one of 127.0.0.0/8 that no interface has. */
static void loopback_any(void)
{
	int listener = bound(SOCK_STREAM, "0.0.0.0"), client = new_socket(AF_INET, SOCK_STREAM);
	CALL("listen", listen(listener, 5));
	nonblocking(listener);
	nonblocking(client);
	struct sockaddr_in address = v4("127.0.0.9", port_of(listener));
	CALL("connect", connect(client, SA(address)));
	wait_poll_step("ready", client, POLLOUT);
	MADE("accept", accept(listener, NULL, NULL));
}

/* One source fills a backlog. */
static void one_source(void)
{
	enum { CLIENTS = 45, BACKLOG = 40 };
	int listener = bound(SOCK_STREAM, "127.0.0.1"), clients[CLIENTS], established = 0;
	CALL("listen", listen(listener, BACKLOG));
	struct sockaddr_in address = v4("127.0.0.1", port_of(listener));
	for (int i = 0; i < CLIENTS; i++) {
		clients[i] = new_socket(AF_INET, SOCK_STREAM);
		nonblocking(clients[i]);
		connect(clients[i], SA(address));
		pause_ms(10);
	}
	pause_ms(300);
	for (int i = 0; i < CLIENTS; i++) {
		int events = events_now(clients[i]);
		established += (events & (POLLOUT | POLLERR)) == POLLOUT;
	}
	step("established", "connect", established > BACKLOG ? "more than the backlog" : text("%d", established));
}

static void backlog(void)
{
	enum { CLIENTS = 5 };
	int listener = bound(SOCK_STREAM, "127.0.0.1"), clients[CLIENTS];
	CALL("listen", listen(listener, 2));
	nonblocking(listener);
	struct sockaddr_in address = v4("127.0.0.1", port_of(listener));
	for (int i = 0; i < CLIENTS; i++) {
		clients[i] = new_socket(AF_INET, SOCK_STREAM);
		nonblocking(clients[i]);
		CALL(text("connect-%d", i + 1), connect(clients[i], SA(address)));
		pause_ms(50);
	}
	pause_ms(200);
	for (int i = 0; i < CLIENTS; i++) {
		poll_step(text("client-%d", i + 1), clients[i]);
		GET_INT(text("client-%d.error", i + 1), clients[i], SOL_SOCKET, SO_ERROR);
	}
	for (int i = 0; i < CLIENTS; i++)
		MADE(text("accept-%d", i + 1), accept(listener, NULL, NULL));
	listener = bound(SOCK_STREAM, "127.0.0.1");
	CALL("zero.listen", listen(listener, 0));
	nonblocking(listener);
	address = v4("127.0.0.1", port_of(listener));
	for (int i = 0; i < 2; i++) {
		clients[i] = new_socket(AF_INET, SOCK_STREAM);
		nonblocking(clients[i]);
		CALL(text("zero.connect-%d", i + 1), connect(clients[i], SA(address)));
		wait_poll_step(text("zero.client-%d", i + 1), clients[i], POLLOUT | POLLIN);
	}
	int many = bound(SOCK_SEQPACKET, "127.0.0.1");
	CALL("one-to-many.listen", listen(many, 1));
	address = v4("127.0.0.1", port_of(many));
	for (int i = 0; i < 3; i++) {
		clients[i] = new_socket(AF_INET, SOCK_STREAM);
		CALL(text("one-to-many.connect-%d", i + 1), connect(clients[i], SA(address)));
	}
	GET_INT("one-to-many.associations", many, SOL_SCTP, SCTP_GET_ASSOC_NUMBER);
}

static void listen_again(void)
{
	int listener = listening(SOCK_STREAM), fd = new_socket(AF_INET, SOCK_STREAM);
	struct sockaddr_in address = v4("127.0.0.1", port_of(listener));
	CALL("again", listen(listener, 10));
	CALL("negative", listen(listener, -1));
	CALL("recv", recv(listener, &(char){ 0 }, 1, MSG_DONTWAIT));
	CALL("send", send(listener, "x", 1, MSG_DONTWAIT));
	CALL("shutdown", shutdown(listener, SHUT_RDWR));
	CALL("connect-after-shutdown", connect(fd, SA(address)));
	listener = listening(SOCK_STREAM);
	address = v4("127.0.0.1", port_of(listener));
	fd = new_socket(AF_INET, SOCK_STREAM);
	CALL("connect", connect(fd, SA(address)));
	CALL("close", close(listener));
	pause_ms(100);
	poll_step("client-after-close", fd);
	receive("client-recv", fd);
	GET_INT("client-error", fd, SOL_SOCKET, SO_ERROR);
	int many = listening(SOCK_SEQPACKET);
	address = v4("127.0.0.1", port_of(many));
	CALL("one-to-many.off", listen(many, 0));
	GET_INT("one-to-many.accepting", many, SOL_SOCKET, SO_ACCEPTCONN);
	fd = new_socket(AF_INET, SOCK_STREAM);
	CALL("one-to-many.connect", connect(fd, SA(address)));
	CALL("one-to-many.on", listen(many, 1));
	CALL("one-to-many.connect-again", connect(fd, SA(address)));
}

static void accepting(void)
{
	int listener = listening(SOCK_STREAM), fd = new_socket(AF_INET, SOCK_STREAM);
	struct sockaddr_in address = v4("127.0.0.1", port_of(listener));
	struct sctp_initmsg init = { .sinit_num_ostreams = 7, .sinit_max_instreams = 5 };
	SET("initmsg", listener, SCTP_INITMSG, init);
	SET_INT("nodelay", listener, SOL_SCTP, SCTP_NODELAY, 1);
	SET_INT("rcvinfo", listener, SOL_SCTP, SCTP_RECVRCVINFO, 1);
	subscribe(listener, SCTP_ASSOC_CHANGE, 1);
	CALL("connect", connect(fd, SA(address)));
	CALL("wrong-flags", accept4(listener, NULL, NULL, 0x7));
	struct sockaddr_storage from = { 0 };
	socklen_t length = 6;
	int server = MADE("accept4", accept4(listener, ADDRESS(from), &length, SOCK_NONBLOCK | SOCK_CLOEXEC));
	step("length", "accept4", text("%u", length));
	step("nonblock", "F_GETFL", fcntl(server, F_GETFL) & O_NONBLOCK ? "O_NONBLOCK" : "0");
	step("cloexec", "F_GETFD", fcntl(server, F_GETFD) & FD_CLOEXEC ? "FD_CLOEXEC" : "0");
	GET_INT("nodelay.inherited", server, SOL_SCTP, SCTP_NODELAY);
	GET_INT("rcvinfo.inherited", server, SOL_SCTP, SCTP_RECVRCVINFO);
	GET("initmsg.inherited", server, SCTP_INITMSG, init, "out=%u in=%u", init.sinit_num_ostreams, init.sinit_max_instreams);
	receive("notification", server);
	/* An association that ends before it is accepted. */
	int lost = new_socket(AF_INET, SOCK_STREAM);
	CALL("lost.connect", connect(lost, SA(address)));
	struct linger none = { 1, 0 };
	setsockopt(lost, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	CALL("lost.close", close(lost));
	pause_ms(200);
	poll_step("lost.listener", listener);
	nonblocking(listener);
	server = MADE("lost.accept", accept(listener, NULL, NULL));
	if (server >= 0)
		drain("lost.server", server);
	/* One that is shut down, with a message, before it is accepted. */
	lost = new_socket(AF_INET, SOCK_STREAM);
	CALL("ended.connect", connect(lost, SA(address)));
	CALL("ended.send", send(lost, "bye", 3, 0));
	CALL("ended.close", close(lost));
	pause_ms(400);
	poll_step("ended.listener", listener);
	server = MADE("ended.accept", accept(listener, NULL, NULL));
	if (server >= 0) {
		drain("ended.server", server);
		CALL("ended.send-back", send(server, "x", 1, 0));
	}
}

const struct probe_case connecting_cases[] = {
	{ "connect.basic", basic }, { "connect.refused", refused }, { "connect.nonblocking", nonblocking_connect },
	{ "connect.no-answer", no_answer }, { "connect.families", families }, { "connect.connectx", connectx },
	{ "connect.backlog", backlog }, { "connect.listen", listen_again }, { "connect.accept", accepting },
	{ "connect.loopback", loopback }, { "connect.loopback-any", loopback_any },
	{ "connect.one-source", one_source },
	{ NULL, NULL },
};
