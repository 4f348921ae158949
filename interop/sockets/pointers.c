/* Pointers to memory that the process does not have: calls fail with EFAULT, and the socket remains usable. */
#include "probe.h"

#include <sys/mman.h>

/* A page without access, and one that can only be read. */
static void *nowhere, *constant;

static void map(void)
{
	nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	constant = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (nowhere == MAP_FAILED || constant == MAP_FAILED)
		fail("mmap");
}

static void addresses(void)
{
	map();
	int listener = listening(SOCK_STREAM), fd = new_socket(AF_INET, SOCK_STREAM);
	struct sockaddr_in address = v4("127.0.0.1", port_of(listener));
	struct sockaddr_storage name;
	socklen_t length = sizeof(name);
	CALL("bind", bind(fd, nowhere, 16));
	CALL("bind.null", bind(fd, NULL, 16));
	CALL("bind.huge", bind(fd, nowhere, 200));
	CALL("connect", connect(fd, nowhere, 16));
	CALL("connect.null", connect(fd, NULL, 16));
	CALL("bindx", sctp_bindx(fd, ADDRESS(address), 0, SCTP_BINDX_ADD_ADDR));
	CALL("bindx.option", setsockopt(fd, SOL_SCTP, SCTP_SOCKOPT_BINDX_ADD, nowhere, 16));
	CALL("connectx.option", setsockopt(fd, SOL_SCTP, SCTP_SOCKOPT_CONNECTX, nowhere, 16));
	struct sctp_getaddrs_old list = { 0, 16, nowhere };
	socklen_t list_length = sizeof(list);
	CALL("connectx3", getsockopt(fd, SOL_SCTP, SCTP_SOCKOPT_CONNECTX3, &list, &list_length));
	CALL("getsockname", getsockname(fd, nowhere, &length));
	CALL("getsockname.length", getsockname(fd, ADDRESS(name), nowhere));
	CALL("getsockname.constant", getsockname(fd, constant, &length));
	CALL("getpeername.unconnected", getpeername(fd, nowhere, &length));
	CALL("connected", connect(fd, SA(address)));
	CALL("getpeername", getpeername(fd, nowhere, &length));
	nonblocking(listener);
	CALL("accept.length", accept(listener, ADDRESS(name), nowhere));
	CALL("accept.empty", accept(listener, nowhere, nowhere));
	int second = new_socket(AF_INET, SOCK_STREAM);
	CALL("connect-second", connect(second, SA(address)));
	length = sizeof(name);
	MADE("accept.second", accept(listener, ADDRESS(name), &length));
}

static void options(void)
{
	map();
	int fd = new_socket(AF_INET, SOCK_STREAM), value = 1;
	socklen_t length = sizeof(value);
	CALL("get", getsockopt(fd, SOL_SCTP, SCTP_NODELAY, nowhere, &length));
	CALL("get.constant", getsockopt(fd, SOL_SCTP, SCTP_NODELAY, constant, &length));
	CALL("get.length", getsockopt(fd, SOL_SCTP, SCTP_NODELAY, &value, nowhere));
	CALL("get.null-length", getsockopt(fd, SOL_SCTP, SCTP_NODELAY, &value, NULL));
	socklen_t negative = (socklen_t)-1;
	CALL("get.negative-length", getsockopt(fd, SOL_SCTP, SCTP_NODELAY, &value, &negative));
	length = sizeof(struct sctp_rtoinfo);
	CALL("get.struct", getsockopt(fd, SOL_SCTP, SCTP_RTOINFO, nowhere, &length));
	length = sizeof(value);
	CALL("get.unknown", getsockopt(fd, SOL_SCTP, 99, nowhere, &length));
	CALL("get.socket-level", getsockopt(fd, SOL_SOCKET, SO_TYPE, nowhere, &length));
	CALL("set", setsockopt(fd, SOL_SCTP, SCTP_NODELAY, nowhere, sizeof(value)));
	CALL("set.null", setsockopt(fd, SOL_SCTP, SCTP_NODELAY, NULL, sizeof(value)));
	CALL("set.socket-level", setsockopt(fd, SOL_SOCKET, SO_SNDBUF, nowhere, sizeof(value)));
	CALL("set.long", setsockopt(fd, SOL_SCTP, SCTP_NODELAY, nowhere, 1 << 20));
	CALL("unread", ioctl(fd, FIONREAD, nowhere));
	GET_INT("nodelay", fd, SOL_SCTP, SCTP_NODELAY);
}

static void sending(void)
{
	map();
	struct pair p = connected(NULL);
	static struct iovec many_parts[2000];
	struct iovec part = { "data", 4 }, bad = { nowhere, 4 };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	CALL("send", send(p.client, nowhere, 4, 0));
	CALL("sendto", sendto(p.client, "data", 4, 0, nowhere, 16));
	CALL("sendmsg", sendmsg(p.client, nowhere, 0));
	CALL("sendmsg.null", sendmsg(p.client, NULL, 0));
	message.msg_iov = nowhere;
	CALL("sendmsg.parts", sendmsg(p.client, &message, 0));
	message.msg_iov = &bad;
	CALL("sendmsg.part", sendmsg(p.client, &message, 0));
	message.msg_iov = many_parts;
	message.msg_iovlen = 2000;
	CALL("sendmsg.many-parts", sendmsg(p.client, &message, 0));
	message.msg_iov = &part;
	message.msg_iovlen = 1;
	message.msg_control = nowhere;
	message.msg_controllen = 48;
	CALL("sendmsg.control", sendmsg(p.client, &message, 0));
	message.msg_control = NULL;
	CALL("sendmsg.null-control", sendmsg(p.client, &message, 0));
	message.msg_controllen = 0;
	message.msg_name = nowhere;
	message.msg_namelen = 16;
	CALL("sendmsg.name", sendmsg(p.client, &message, 0));
	CALL("writev", writev(p.client, nowhere, 1));
	CALL("writev.many", writev(p.client, many_parts, 2000));
	CALL("write.ok", write(p.client, "still works", 11));
	receive("recv", p.server);
	struct pair many = associated(NULL);
	CALL("many.sendto", sendto(many.client, nowhere, 4, 0, SA(many.server_address)));
	CALL("many.address", sendto(many.client, "data", 4, 0, nowhere, 16));
	CALL("many.ok", sendto(many.client, "still works", 11, 0, SA(many.server_address)));
	receive("many.recv", many.server);
}

static void receiving(void)
{
	map();
	struct pair p = connected(NULL);
	char data[16];
	struct iovec part = { data, sizeof(data) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	socklen_t length = 16;
	CALL("send-1", send(p.client, "first", 5, 0));
	pause_ms(50);
	CALL("recvmsg", recvmsg(p.server, nowhere, MSG_DONTWAIT));
	CALL("recvmsg.null", recvmsg(p.server, NULL, MSG_DONTWAIT));
	message.msg_iov = nowhere;
	CALL("recvmsg.parts", recvmsg(p.server, &message, MSG_DONTWAIT));
	static struct iovec many_parts[2000];
	message.msg_iov = many_parts;
	message.msg_iovlen = 2000;
	CALL("recvmsg.many-parts", recvmsg(p.server, &message, MSG_DONTWAIT));
	message.msg_iov = &part;
	message.msg_iovlen = 1;
	CALL("readv", readv(p.server, nowhere, 1));
	receive("first", p.server);
	CALL("send-2", send(p.client, "second", 6, 0));
	pause_ms(50);
	CALL("recvfrom.length", recvfrom(p.server, data, sizeof(data), MSG_DONTWAIT, (struct sockaddr *)data, nowhere));
	CALL("send-3", send(p.client, "third", 5, 0));
	pause_ms(50);
	CALL("recvfrom.address", recvfrom(p.server, data, sizeof(data), MSG_DONTWAIT, nowhere, &length));
	CALL("send-4", send(p.client, "fourth", 6, 0));
	pause_ms(50);
	message.msg_name = nowhere;
	message.msg_namelen = 16;
	CALL("recvmsg.name", recvmsg(p.server, &message, MSG_DONTWAIT));
	CALL("send-5", send(p.client, "last", 4, 0));
	receive("last", p.server);
}

const struct probe_case pointer_cases[] = {
	{ "pointer.addresses", addresses }, { "pointer.options", options }, { "pointer.sending", sending },
	{ "pointer.receiving", receiving }, { NULL, NULL },
};
