/* Ends of associations: close, shutdown, SO_LINGER, and their effect on the peer (RFC 6458, sections 4.1.5 to 4.1.7, 8.1.4). */
#include "probe.h"

#include <time.h>

static char block[1000];

static void closing(void)
{
	struct pair p = connected(NULL);
	CALL("send", send(p.client, "last words", 10, 0));
	CALL("close", close(p.client));
	drain("server", p.server);
	receive("again", p.server);
	CALL("send-to-closed", send(p.server, "x", 1, 0));
	CALL("send-to-closed.nosignal", send(p.server, "x", 1, MSG_NOSIGNAL));
	GET_INT("error", p.server, SOL_SOCKET, SO_ERROR);
	struct sockaddr_storage peer;
	socklen_t length = sizeof(peer);
	CALL("getpeername", getpeername(p.server, ADDRESS(peer), &length));
	CALL("getsockname", getsockname(p.server, ADDRESS(peer), &length));
	CALL("shutdown", shutdown(p.server, SHUT_RDWR));
	CALL("connect", connect(p.server, SA(p.server_address)));
	/* Data that the server has not read. */
	p = connected(NULL);
	CALL("unread.send", send(p.client, "unread", 6, 0));
	pause_ms(100);
	CALL("unread.close", close(p.server));
	drain("unread.client", p.client);
	CALL("unread.send-more", send(p.client, "x", 1, 0));
	/* Much data. */
	p = connected(NULL);
	int number = 0;
	while (number < 40 && send(p.client, block, sizeof(block), MSG_DONTWAIT) > 0)
		number++;
	CALL("much.close", close(p.client));
	int received = 0;
	ssize_t last;
	while ((last = recv(p.server, block, sizeof(block), 0)) > 0)
		received++;
	step("much.received", "recv", text("%s, then %zd", received == number ? "all" : "not all", last));
}

static void lingering(void)
{
	struct linger none = { 1, 0 }, short_time = { 1, 1 };
	struct pair p = connected(NULL);
	CALL("zero.set", setsockopt(p.client, SOL_SOCKET, SO_LINGER, &none, sizeof(none)));
	CALL("zero.close", close(p.client));
	wait_poll_step("zero.poll", p.server, POLLIN);
	receive("zero.recv", p.server);
	receive("zero.recv-again", p.server);
	CALL("zero.send", send(p.server, "x", 1, 0));
	p = connected(NULL);
	CALL("zero.send-first", setsockopt(p.client, SOL_SOCKET, SO_LINGER, &none, sizeof(none)));
	pause_ms(300);
	CALL("zero.queued", send(p.client, "queued", 6, 0));
	pause_ms(100);
	CALL("zero.queued.close", close(p.client));
	drain("zero.queued.server", p.server);
	p = connected(NULL);
	CALL("zero.error.set", setsockopt(p.client, SOL_SOCKET, SO_LINGER, &none, sizeof(none)));
	CALL("zero.error.close", close(p.client));
	wait_for(p.server, POLLIN, SOON);
	GET_INT("zero.error", p.server, SOL_SOCKET, SO_ERROR);
	receive("zero.error.recv", p.server);
	p = connected(NULL);
	CALL("zero.write.set", setsockopt(p.client, SOL_SOCKET, SO_LINGER, &none, sizeof(none)));
	CALL("zero.write.close", close(p.client));
	wait_for(p.server, POLLIN, SOON);
	CALL("zero.write", write(p.server, "x", 1));
	CALL("zero.write-again", write(p.server, "x", 1));
	/* A close that waits, for a peer that does not read. */
	p = connected(with_small_buffer);
	fill(p.client);
	CALL("wait.set", setsockopt(p.client, SOL_SOCKET, SO_LINGER, &short_time, sizeof(short_time)));
	struct timespec from, to;
	clock_gettime(CLOCK_MONOTONIC, &from);
	CALL("wait.close", close(p.client));
	clock_gettime(CLOCK_MONOTONIC, &to);
	long waited = (to.tv_sec - from.tv_sec) * 1000 + (to.tv_nsec - from.tv_nsec) / 1000000;
	step("wait.time", "close", waited < 500 ? "at once" : waited < 3000 ? "about a second" : "longer");
	int received = 0;
	ssize_t last;
	while ((last = recv(p.server, block, sizeof(block), 0)) > 0)
		received++;
	step("wait.received", "recv", text("%s, then %zd", received > 0 ? "some" : "none", last));
}

static void shutting_down(void)
{
	struct pair p = connected(NULL);
	CALL("write", shutdown(p.client, SHUT_WR));
	CALL("write.send", send(p.client, "x", 1, 0));
	CALL("write.send-nosignal", send(p.client, "x", 1, MSG_NOSIGNAL));
	CALL("write.again", shutdown(p.client, SHUT_WR));
	drain("write.server", p.server);
	CALL("write.server-send", send(p.server, "x", 1, 0));
	drain("write.client", p.client);
	CALL("write.after-end", shutdown(p.client, SHUT_WR));
	p = connected(NULL);
	CALL("both", shutdown(p.client, SHUT_RDWR));
	drain("both.server", p.server);
	drain("both.client", p.client);
	p = connected(NULL);
	CALL("wrong", shutdown(p.client, 7));
	CALL("listener", shutdown(p.listener, SHUT_WR));
	/* Data of the peer in flight and unread. */
	p = connected(NULL);
	CALL("crossing.server-send", send(p.server, "to the client", 13, 0));
	pause_ms(300);
	CALL("crossing", shutdown(p.client, SHUT_WR));
	drain("crossing.client", p.client);
	drain("crossing.server", p.server);
	/* Unacknowledged data of both: all of it arrives. */
	p = connected(NULL);
	CALL("queued.send", send(p.client, "one", 3, 0));
	CALL("queued.send-second", send(p.client, "two", 3, 0));
	CALL("queued", shutdown(p.client, SHUT_WR));
	drain("queued.server", p.server);
	CALL("reconnect", connect(p.client, SA(p.server_address)));
	int listener = listening(SOCK_STREAM);
	struct sockaddr_in address = v4("127.0.0.1", port_of(listener));
	CALL("reconnect-other", connect(p.client, SA(address)));
	CALL("reconnect-other.send", send(p.client, "again", 5, 0));
}

/* A process that ends without close. */
static void exiting(void)
{
	int listener = listening(SOCK_STREAM);
	struct sockaddr_in address = v4("127.0.0.1", port_of(listener));
	pid_t child = fork();
	if (child == 0) {
		int client = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
		if (connect(client, SA(address)) != 0)
			_exit(1);
		send(client, "before the end", 14, 0);
		_exit(0);
	}
	int server = MADE("accept", accept(listener, NULL, NULL));
	waitpid(child, NULL, 0);
	drain("exit", server);
	child = fork();
	if (child == 0) {
		int client = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
		if (connect(client, SA(address)) != 0)
			_exit(1);
		send(client, "before the end", 14, 0);
		pause();
	}
	server = MADE("kill.accept", accept(listener, NULL, NULL));
	receive("kill.recv", server);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	drain("kill", server);
}

/* A call that waits while the peer, or another process, ends the association. */
static void while_waiting(void)
{
	struct pair p = connected(NULL);
	pid_t child = fork();
	if (child == 0) {
		pause_ms(300);
		shutdown(p.client, SHUT_RDWR);
		_exit(0);
	}
	CALL("shutdown-by-peer", recv(p.server, block, sizeof(block), 0));
	waitpid(child, NULL, 0);
	struct linger none = { 1, 0 };
	p = connected(NULL);
	setsockopt(p.client, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	child = fork();
	if (child == 0) {
		pause_ms(300);
		_exit(0);
	}
	close(p.client);
	CALL("abort-by-peer", recv(p.server, block, sizeof(block), 0));
	waitpid(child, NULL, 0);
	p = connected(with_small_buffer);
	fill(p.client);
	setsockopt(p.server, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	child = fork();
	if (child == 0) {
		pause_ms(300);
		_exit(0);
	}
	close(p.server);
	CALL("send-aborted", send(p.client, block, sizeof(block), 0));
	waitpid(child, NULL, 0);
	CALL("send-again", send(p.client, block, sizeof(block), 0));
	/* Another process reads, and this one closes its descriptor. */
	p = connected(NULL);
	child = fork();
	if (child == 0)
		_exit(recv(p.server, block, sizeof(block), 0) == 4 ? 0 : 1);
	pause_ms(300);
	close(p.server);
	CALL("send-to-reader", send(p.client, "data", 4, 0));
	int status = -1;
	waitpid(child, &status, 0);
	step("reader", "the child", text("%d", WEXITSTATUS(status)));
	drain("after-reader", p.client);
}

/* Starts a process that shuts a socket down while this one waits in a call. */
static pid_t shut_down_soon(int fd, int how)
{
	pid_t child = fork();
	if (child == 0) {
		pause_ms(300);
		shutdown(fd, how);
		_exit(0);
	}
	return child;
}

/* A call that waits, for a peer that does not read, while another process shuts the same socket down. */
static void while_shut_down(void)
{
	struct timeval limit = { 4, 0 };
	struct pair p = connected(with_small_buffer);
	setsockopt(p.client, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	fill(p.client);
	pid_t child = shut_down_soon(p.client, SHUT_WR);
	CALL("write.send", send(p.client, block, sizeof(block), 0));
	CALL("write.send-again", send(p.client, block, sizeof(block), 0));
	waitpid(child, NULL, 0);
	p = connected(NULL);
	setsockopt(p.client, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	child = shut_down_soon(p.client, SHUT_RD);
	CALL("read.recv", recv(p.client, block, sizeof(block), 0));
	waitpid(child, NULL, 0);
	CALL("read.server-send", send(p.server, "dropped", 7, 0));
	pause_ms(QUIET);
	CALL("read.recv-again", recv(p.client, block, sizeof(block), 0));
	/* The peer reads again, which makes room. */
	p = connected(with_small_buffer);
	setsockopt(p.client, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	setsockopt(p.client, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	int sent = fill(p.client);
	child = shut_down_soon(p.client, SHUT_RDWR);
	CALL("both.recv", recv(p.client, block, sizeof(block), 0));
	waitpid(child, NULL, 0);
	CALL("both.send", send(p.client, block, sizeof(block), 0));
	setsockopt(p.server, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	CALL("both.server-send", send(p.server, "dropped", 7, 0));
	int received = 0;
	ssize_t last;
	while ((last = recv(p.server, block, sizeof(block), 0)) > 0)
		received++;
	step("both.received", "recv", text("%s, then %zd", received == sent ? "all" : "others", last));
	CALL("both.recv-again", recv(p.client, block, sizeof(block), 0));
}

/* Blocking calls without an association, or after the end of one. */
static void blocking(void)
{
	char data[16];
	int fd = new_socket(AF_INET, SOCK_STREAM);
	CALL("one-to-one", recv(fd, data, sizeof(data), 0));
	CALL("one-to-one.read", read(fd, data, sizeof(data)));
	fd = new_socket(AF_INET, SOCK_SEQPACKET);
	CALL("one-to-many", recv(fd, data, sizeof(data), 0));
	struct iovec part = { data, sizeof(data) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	CALL("one-to-many.recvmsg", recvmsg(fd, &message, 0));
	CALL("one-to-many.peek", recv(fd, data, sizeof(data), MSG_PEEK));
	CALL("one-to-many.nonblocking", recv(fd, data, sizeof(data), MSG_DONTWAIT));
	struct sockaddr_in address = v4("127.0.0.1", 0);
	CALL("one-to-many.bind", bind(fd, SA(address)));
	CALL("one-to-many.bound", recv(fd, data, sizeof(data), 0));
	/* The only association ends. */
	struct pair many = associated(NULL);
	struct sctp_sndinfo eof = { .snd_flags = SCTP_EOF, .snd_assoc_id = many.client_id };
	CALL("many.eof", send_info(many.client, NULL, NULL, eof));
	pause_ms(QUIET);
	CALL("many.after-eof", recv(many.client, data, sizeof(data), 0));
	/* This side has shut down. */
	struct pair p = connected(NULL);
	CALL("shutdown", shutdown(p.client, SHUT_WR));
	pause_ms(QUIET);
	CALL("shutdown.recv", recv(p.client, data, sizeof(data), 0));
	CALL("shutdown.recv-again", recv(p.client, data, sizeof(data), 0));
	CALL("shutdown.server", recv(p.server, data, sizeof(data), 0));
	CALL("shutdown.server-again", recv(p.server, data, sizeof(data), 0));
	/* The peer has aborted. */
	p = connected(NULL);
	struct linger none = { 1, 0 };
	setsockopt(p.server, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	close(p.server);
	pause_ms(QUIET);
	CALL("aborted.recv", recv(p.client, data, sizeof(data), 0));
	CALL("aborted.recv-again", recv(p.client, data, sizeof(data), 0));
	/* The set-up has failed. */
	close(p.listener);
	address = p.server_address;
	fd = new_socket(AF_INET, SOCK_STREAM);
	CALL("refused.connect", connect(fd, SA(address)));
	CALL("refused.recv", recv(fd, data, sizeof(data), 0));
	CALL("refused.recv-again", recv(fd, data, sizeof(data), 0));
	/* With a limit of time. */
	struct timeval limit = { 0, 100000 };
	fd = listening(SOCK_SEQPACKET);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	CALL("listening.recv", recv(fd, data, sizeof(data), 0));
	fd = new_socket(AF_INET, SOCK_SEQPACKET);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	CALL("limited.recv", recv(fd, data, sizeof(data), 0));
}

const struct probe_case ending_cases[] = {
	{ "end.close", closing }, { "end.linger", lingering }, { "end.shutdown", shutting_down }, { "end.exit", exiting },
	{ "end.while-waiting", while_waiting }, { "end.while-shut-down", while_shut_down },
	{ "end.blocking", blocking }, { NULL, NULL },
};
