/* Sockets shared by processes and descriptors: fork, exec, dup, and passing them on. */
#include "probe.h"

#include <sys/un.h>

static int child_status(pid_t child)
{
	int status = -1;
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void forking(void)
{
	struct pair p = connected(NULL);
	pid_t child = fork();
	if (child == 0)
		_exit(send(p.client, "from the child", 14, 0) == 14 && close(p.client) == 0 ? 0 : 1);
	step("child", "the child", text("%d", child_status(child)));
	CALL("parent", send(p.client, "from the parent", 15, 0));
	drain("server", p.server);
	child = fork();
	if (child == 0) {
		close(p.client);
		close(p.server);
		_exit(0);
	}
	step("closing-child", "the child", text("%d", child_status(child)));
	poll_step("still-connected", p.server);
	CALL("still-connected.send", send(p.server, "back", 4, 0));
	receive("still-connected.recv", p.client);
	/* The parent closes, the child still has it. */
	int ready[2];
	if (pipe(ready) != 0)
		fail("pipe");
	child = fork();
	if (child == 0) {
		char byte;
		close(ready[1]);
		ssize_t unused = read(ready[0], &byte, 1);
		(void)unused;
		_exit(send(p.client, "the child's", 11, 0) == 11 ? 0 : 1);
	}
	CALL("parent-closes", close(p.client));
	pause_ms(200);
	poll_step("child-holds", p.server);
	close(ready[1]);
	step("last-child", "the child", text("%d", child_status(child)));
	drain("end", p.server);
	/* Accepting in a child. */
	int listener = listening(SOCK_STREAM);
	child = fork();
	if (child == 0) {
		int server = accept(listener, NULL, NULL);
		_exit(server >= 0 && send(server, "accepted", 8, 0) == 8 ? 0 : 1);
	}
	struct sockaddr_in address = v4("127.0.0.1", port_of(listener));
	int client = new_socket(AF_INET, SOCK_STREAM);
	CALL("accepting-child.connect", connect(client, SA(address)));
	step("accepting-child", "the child", text("%d", child_status(child)));
	drain("accepting-child.recv", client);
	/* Options of a shared socket. */
	int shared = new_socket(AF_INET, SOCK_STREAM), on = 1;
	child = fork();
	if (child == 0)
		_exit(setsockopt(shared, SOL_SCTP, SCTP_NODELAY, &on, sizeof(on)) == 0 ? 0 : 1);
	step("option-child", "the child", text("%d", child_status(child)));
	GET_INT("option", shared, SOL_SCTP, SCTP_NODELAY);
}

static void duplicates(void)
{
	struct pair p = connected(NULL);
	int copy = MADE("dup", dup(p.client));
	CALL("close-original", close(p.client));
	CALL("send", send(copy, "by the copy", 11, 0));
	receive("recv", p.server);
	GET_INT("option", copy, SOL_SOCKET, SO_PROTOCOL);
	struct sctp_status status = { 0 };
	GET("status", copy, SCTP_STATUS, status, "state=%d", status.sstat_state);
	int high = MADE("dupfd", fcntl(copy, F_DUPFD_CLOEXEC, 200));
	step("dupfd.cloexec", "F_GETFD", fcntl(high, F_GETFD) & FD_CLOEXEC ? "FD_CLOEXEC" : "0");
	CALL("dupfd.send", send(high, "high", 4, 0));
	receive("dupfd.recv", p.server);
	int third = MADE("dup3", dup3(copy, 300, O_CLOEXEC));
	CALL("dup3.same", dup3(copy, copy, 0));
	CALL("close-copies", close_range(200, 300, 0));
	CALL("send-closed", send(third, "x", 1, 0));
	CALL("send-after", send(copy, "after", 5, 0));
	receive("recv-after", p.server);
	/* dup2 over a socket closes it. */
	struct pair other = connected(NULL);
	step("dup2", "dup2", dup2(copy, other.client) == other.client ? "the same number" : "another number");
	drain("dup2.peer", other.server);
	CALL("dup2.send", send(other.client, "twice", 5, 0));
	receive("dup2.recv", p.server);
	CALL("nonblocking-copy", fcntl(copy, F_SETFL, O_NONBLOCK));
	step("nonblocking", "F_GETFL", fcntl(other.client, F_GETFL) & O_NONBLOCK ? "O_NONBLOCK" : "0");
	CALL("close", close(copy));
	CALL("close-last", close(other.client));
	drain("end", p.server);
}

/* A shell that writes to a descriptor, and one that was closed by exec. */
static void executing(void)
{
	struct pair p = connected(NULL);
	char command[100];
	snprintf(command, sizeof(command), "printf hello >&%d", p.client);
	fcntl(p.client, F_SETFD, 0);
	pid_t child = fork();
	if (child == 0) {
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	step("inherited", "sh", text("%d", child_status(child)));
	receive("inherited.recv", p.server);
	fcntl(p.client, F_SETFD, FD_CLOEXEC);
	child = fork();
	if (child == 0) {
		int silent = open("/dev/null", O_WRONLY);
		dup2(silent, STDERR_FILENO);
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	step("closed-by-exec", "sh", child_status(child) == 0 ? "0" : "not 0");
	poll_step("still-connected", p.server);
	fcntl(p.client, F_SETFD, 0);
	child = fork();
	if (child == 0) {
		dup2(p.client, STDIN_FILENO);
		execl("/bin/sh", "sh", "-c", "read line; test \"$line\" = question && printf answer >&0", (char *)NULL);
		_exit(127);
	}
	CALL("question", send(p.server, "question\n", 9, 0));
	step("standard-input", "sh", text("%d", child_status(child)));
	receive("answer", p.server);
}

static void passing(void)
{
	struct pair p = connected(NULL);
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
		fail("socketpair");
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec part = { "x", 1 };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control) };
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	*header = (struct cmsghdr){ CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS };
	memcpy(CMSG_DATA(header), &p.client, sizeof(int));
	CALL("sendmsg", sendmsg(ends[0], &message, 0));
	CALL("close", close(p.client));
	char byte;
	part = (struct iovec){ &byte, 1 };
	CALL("recvmsg", recvmsg(ends[1], &message, 0));
	int passed;
	memcpy(&passed, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
	CALL("send", send(passed, "passed", 6, 0));
	receive("recv", p.server);
	GET_INT("type", passed, SOL_SOCKET, SO_TYPE);
	CALL("close-passed", close(passed));
	drain("end", p.server);
}

const struct probe_case process_cases[] = {
	{ "process.fork", forking }, { "process.dup", duplicates }, { "process.exec", executing }, { "process.pass", passing },
	{ NULL, NULL },
};
