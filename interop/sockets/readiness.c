/* poll, select and edge-triggered epoll in every state of a socket. */
#include "probe.h"

#include <sys/epoll.h>
#include <sys/select.h>

static void states(void)
{
	int one = new_socket(AF_INET, SOCK_STREAM), many = new_socket(AF_INET, SOCK_SEQPACKET);
	poll_step("one-to-one.new", one);
	poll_step("one-to-many.new", many);
	int listener = listening(SOCK_STREAM);
	poll_step("listener.none", listener);
	poll_step("one-to-many.listening", listening(SOCK_SEQPACKET));
	struct sockaddr_in address = v4("127.0.0.1", port_of(listener));
	if (connect(one, SA(address)) != 0)
		fail("connect");
	wait_poll_step("listener.one", listener, POLLIN);
	poll_step("connected", one);
	int server = accept(listener, NULL, NULL);
	poll_step("accepted", server);
	poll_step("listener.accepted", listener);
	send(one, "data", 4, 0);
	wait_poll_step("data", server, POLLIN);
	receive("data.recv", server);
	poll_step("data.read", server);
	CALL("shutdown", shutdown(one, SHUT_WR));
	pause_ms(400);
	poll_step("shutdown.client", one);
	poll_step("shutdown.server", server);
	receive("shutdown.recv", server);
	poll_step("shutdown.after-eof", server);
	receive("shutdown.client-recv", one);
	poll_step("shutdown.client-after-eof", one);
	struct pair p = connected(NULL);
	struct linger none = { 1, 0 };
	setsockopt(p.client, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	close(p.client);
	wait_poll_step("abort", p.server, POLLIN);
	receive("abort.recv", p.server);
	poll_step("abort.after-error", p.server);
	receive("abort.recv-again", p.server);
	p = connected(NULL);
	setsockopt(p.client, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	send(p.client, "data", 4, 0);
	pause_ms(100);
	close(p.client);
	wait_poll_step("data-and-abort", p.server, POLLIN);
	drain("data-and-abort", p.server);
	poll_step("data-and-abort.after", p.server);
	p = connected(NULL);
	CALL("shutdown-read", shutdown(p.server, SHUT_RD));
	poll_step("shutdown-read.poll", p.server);
	receive("shutdown-read.recv", p.server);
	CALL("shutdown-read.send", send(p.client, "data", 4, 0));
	pause_ms(100);
	receive("shutdown-read.recv-data", p.server);
	CALL("shutdown-read.send-back", send(p.server, "back", 4, 0));
	receive("shutdown-read.client", p.client);
	p = connected(NULL);
	close(p.client);
	pause_ms(400);
	poll_step("closed", p.server);
	p = associated(NULL);
	poll_step("one-to-many.associated", p.client);
	CALL("one-to-many.send", sendto(p.client, "data", 4, 0, SA(p.server_address)));
	wait_poll_step("one-to-many.data", p.server, POLLIN);
	discard(p.server);
	close(p.client);
	pause_ms(400);
	poll_step("one-to-many.peer-closed", p.server);
}

static void select_step(const char *name, int fd)
{
	fd_set in, out, except;
	FD_ZERO(&in);
	FD_ZERO(&out);
	FD_ZERO(&except);
	FD_SET(fd, &in);
	FD_SET(fd, &out);
	FD_SET(fd, &except);
	struct timeval none = { 0, 0 };
	int number = select(fd + 1, &in, &out, &except, &none);
	step(name, "select", text("%d:%s%s%s", number, FD_ISSET(fd, &in) ? " read" : "", FD_ISSET(fd, &out) ? " write" : "",
				  FD_ISSET(fd, &except) ? " except" : ""));
}

static void selecting(void)
{
	select_step("new", new_socket(AF_INET, SOCK_STREAM));
	struct pair p = connected(NULL);
	select_step("connected", p.client);
	CALL("send", send(p.client, "data", 4, 0));
	wait_for(p.server, POLLIN, SOON);
	select_step("data", p.server);
	discard(p.server);
	CALL("close", close(p.client));
	pause_ms(400);
	select_step("closed", p.server);
	select_step("listener", p.listener);
}

static const char *edges(int set, int milliseconds)
{
	struct epoll_event events[8];
	int number = epoll_wait(set, events, 8, milliseconds);
	if (number < 0)
		return text("-1 %s", error_name(errno));
	const char *all = text("%d:", number);
	/* The bits of epoll are those of poll. */
	for (int i = 0; i < number; i++)
		all = text("%s %s", all, poll_text((int)events[i].events));
	return all;
}

static int watch(int fd, uint32_t events)
{
	int set = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event event = { .events = events, .data.fd = fd };
	if (set < 0 || epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) != 0)
		fail("epoll");
	return set;
}

static void edge_triggered(void)
{
	struct pair p = connected(NULL);
	int set = watch(p.server, EPOLLIN | EPOLLRDHUP | EPOLLET);
	step("none", "epoll_wait", edges(set, 0));
	CALL("send", send(p.client, "one", 3, 0));
	step("first", "epoll_wait", edges(set, SOON));
	step("first.again", "epoll_wait", edges(set, QUIET));
	CALL("send-second", send(p.client, "two", 3, 0));
	step("second-while-unread", "epoll_wait", edges(set, SOON));
	receive("recv", p.server);
	step("after-one-read", "epoll_wait", edges(set, QUIET));
	receive("recv-second", p.server);
	receive("recv-none", p.server);
	step("after-eagain", "epoll_wait", edges(set, QUIET));
	CALL("send-third", send(p.client, "three", 5, 0));
	step("third", "epoll_wait", edges(set, SOON));
	receive_with("part", p.server, 2, 512, 0);
	step("after-part", "epoll_wait", edges(set, QUIET));
	receive("rest", p.server);
	CALL("close", close(p.client));
	pause_ms(400);
	step("end", "epoll_wait", edges(set, SOON));
	step("end.again", "epoll_wait", edges(set, QUIET));
	receive("eof", p.server);
	/* A listening socket. */
	int listener = listening(SOCK_STREAM);
	nonblocking(listener);
	set = watch(listener, EPOLLIN | EPOLLET);
	struct sockaddr_in address = v4("127.0.0.1", port_of(listener));
	int first = new_socket(AF_INET, SOCK_STREAM), second = new_socket(AF_INET, SOCK_STREAM);
	CALL("listener.connect", connect(first, SA(address)));
	step("listener.first", "epoll_wait", edges(set, SOON));
	CALL("listener.connect-second", connect(second, SA(address)));
	step("listener.second", "epoll_wait", edges(set, SOON));
	MADE("listener.accept", accept(listener, NULL, NULL));
	MADE("listener.accept-second", accept(listener, NULL, NULL));
	MADE("listener.accept-none", accept(listener, NULL, NULL));
	step("listener.quiet", "epoll_wait", edges(set, QUIET));
	/* A connecting socket. */
	int client = new_socket(AF_INET, SOCK_STREAM);
	nonblocking(client);
	set = watch(client, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
	step("connecting.before", "epoll_wait", edges(set, 0));
	CALL("connecting", connect(client, SA(address)));
	pause_ms(200);
	step("connecting.up", "epoll_wait", edges(set, SOON));
	step("connecting.again", "epoll_wait", edges(set, QUIET));
	CALL("connecting.send", send(client, "data", 4, 0));
	int refused = new_socket(AF_INET, SOCK_STREAM), unused = bound(SOCK_STREAM, "127.0.0.1");
	struct sockaddr_in nowhere = v4("127.0.0.1", port_of(unused));
	close(unused);
	nonblocking(refused);
	CALL("refused", connect(refused, SA(nowhere)));
	set = watch(refused, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
	pause_ms(200);
	step("refused.edges", "epoll_wait", edges(set, SOON));
	GET_INT("refused.error", refused, SOL_SOCKET, SO_ERROR);
}

/* Room in the send buffer as an edge. */
static void room(void)
{
	struct pair p = connected(with_small_buffer);
	SET_INT("sndbuf", p.client, SOL_SOCKET, SO_SNDBUF, 20000);
	int set = watch(p.client, EPOLLOUT | EPOLLET);
	step("connected", "epoll_wait", edges(set, 0));
	fill(p.client);
	/* Edges of room that was used again. */
	edges(set, 0);
	step("full", "epoll_wait", edges(set, QUIET));
	poll_step("full.poll", p.client);
	/* The window opens when the sender probes it. */
	for (int i = 0; i < 10 && !(events_now(p.client) & POLLOUT); i++)
		discard(p.server);
	step("read", "epoll_wait", edges(set, SOON));
	poll_step("read.poll", p.client);
}

static void one_shot(void)
{
	struct pair p = connected(NULL);
	int set = watch(p.server, EPOLLIN | EPOLLONESHOT);
	CALL("send", send(p.client, "one", 3, 0));
	step("first", "epoll_wait", edges(set, SOON));
	CALL("send-second", send(p.client, "two", 3, 0));
	step("second", "epoll_wait", edges(set, QUIET));
	struct epoll_event event = { .events = EPOLLIN | EPOLLONESHOT };
	CALL("rearm", epoll_ctl(set, EPOLL_CTL_MOD, p.server, &event));
	step("rearmed", "epoll_wait", edges(set, SOON));
	set = watch(p.server, EPOLLIN);
	step("level", "epoll_wait", edges(set, SOON));
	step("level.again", "epoll_wait", edges(set, SOON));
	CALL("remove", epoll_ctl(set, EPOLL_CTL_DEL, p.server, NULL));
	step("removed", "epoll_wait", edges(set, 0));
}

const struct probe_case readiness_cases[] = {
	{ "ready.states", states }, { "ready.select", selecting }, { "ready.edges", edge_triggered }, { "ready.room", room },
	{ "ready.one-shot", one_shot }, { NULL, NULL },
};
