/* socket, bind, sctp_bindx, getsockname and the addresses of sockets (RFC 6458, sections 3.1, 4.1, 9.1 and 9.5). */
#include "probe.h"

static const char *name_text(int fd)
{
	struct sockaddr_storage name;
	socklen_t length = sizeof(name);
	if (getsockname(fd, ADDRESS(name), &length) != 0)
		return text("-1 %s", error_name(errno));
	return address_name(&name, length);
}

static void name_step(const char *name, int fd)
{
	step(name, "getsockname", name_text(fd));
}

static void peer_step(const char *name, int fd)
{
	struct sockaddr_storage peer;
	socklen_t length = sizeof(peer);
	errno = 0;
	bool is_known = getpeername(fd, ADDRESS(peer), &length) == 0;
	step(name, "getpeername", is_known ? address_name(&peer, length) : text("-1 %s", error_name(errno)));
}

static void addresses_step(const char *name, int fd)
{
	struct sockaddr *list = NULL;
	errno = 0;
	int number = sctp_getladdrs(fd, 0, &list);
	step(name, "sctp_getladdrs", number < 0 ? text("-1 %s", error_name(errno)) : addresses_text(list, number));
	if (number > 0)
		sctp_freeladdrs(list);
}

static void kinds(void)
{
	static const struct {
		const char *name;
		int family, type, protocol;
	} list[] = {
		{ "inet-stream", AF_INET, SOCK_STREAM, IPPROTO_SCTP }, { "inet-seqpacket", AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP },
		{ "inet6-stream", AF_INET6, SOCK_STREAM, IPPROTO_SCTP }, { "inet6-seqpacket", AF_INET6, SOCK_SEQPACKET, IPPROTO_SCTP },
		{ "dgram", AF_INET, SOCK_DGRAM, IPPROTO_SCTP }, { "rdm", AF_INET, SOCK_RDM, IPPROTO_SCTP },
		{ "unix", AF_UNIX, SOCK_STREAM, IPPROTO_SCTP }, { "seqpacket-protocol-0", AF_INET, SOCK_SEQPACKET, 0 },
		{ "inet6-seqpacket-protocol-0", AF_INET6, SOCK_SEQPACKET, 0 },
	};
	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
		errno = 0;
		int fd = made(list[i].name, "socket", socket(list[i].family, list[i].type, list[i].protocol));
		if (fd < 0)
			continue;
		GET_INT(text("%s.type", list[i].name), fd, SOL_SOCKET, SO_TYPE);
		GET_INT(text("%s.domain", list[i].name), fd, SOL_SOCKET, SO_DOMAIN);
		GET_INT(text("%s.protocol", list[i].name), fd, SOL_SOCKET, SO_PROTOCOL);
	}
	int fd = MADE("with-flags", socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_SCTP));
	step("with-flags.nonblock", "F_GETFL", fcntl(fd, F_GETFL) & O_NONBLOCK ? "O_NONBLOCK" : "0");
	step("with-flags.cloexec", "F_GETFD", fcntl(fd, F_GETFD) & FD_CLOEXEC ? "FD_CLOEXEC" : "0");
	fd = new_socket(AF_INET, SOCK_STREAM);
	step("without-flags.nonblock", "F_GETFL", fcntl(fd, F_GETFL) & O_NONBLOCK ? "O_NONBLOCK" : "0");
	step("without-flags.cloexec", "F_GETFD", fcntl(fd, F_GETFD) & FD_CLOEXEC ? "FD_CLOEXEC" : "0");
}

static void unbound_of(const char *style, int family, int type)
{
	int fd = new_socket(family, type);
	char byte;
	name_step(text("%s.name", style), fd);
	peer_step(text("%s.peer", style), fd);
	addresses_step(text("%s.addresses", style), fd);
	GET_INT(text("%s.accepting", style), fd, SOL_SOCKET, SO_ACCEPTCONN);
	CALL(text("%s.recv", style), recv(fd, &byte, 1, MSG_DONTWAIT));
	CALL(text("%s.send", style), send(fd, "x", 1, MSG_DONTWAIT));
	CALL(text("%s.send-nosignal", style), send(fd, "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL));
	CALL(text("%s.write", style), write(fd, "x", 1));
	CALL(text("%s.shutdown", style), shutdown(fd, SHUT_WR));
	CALL(text("%s.accept", style), accept4(fd, NULL, NULL, SOCK_NONBLOCK));
	CALL(text("%s.listen", style), listen(fd, 5));
	GET_INT(text("%s.listens", style), fd, SOL_SOCKET, SO_ACCEPTCONN);
	name_step(text("%s.name-of-listening", style), fd);
	CALL(text("%s.close", style), close(fd));
	CALL(text("%s.close-again", style), close(fd));
	CALL(text("%s.send-closed", style), send(fd, "x", 1, 0));
}

static void unbound(void)
{
	unbound_of("one-to-one", AF_INET, SOCK_STREAM);
	unbound_of("one-to-many", AF_INET, SOCK_SEQPACKET);
	unbound_of("inet6", AF_INET6, SOCK_STREAM);
}

static void bind_inet(void)
{
	int fd = new_socket(AF_INET, SOCK_STREAM);
	struct sockaddr_in loopback = v4("127.0.0.1", 0);
	CALL("short", bind(fd, ADDRESS(loopback), 8));
	CALL("empty", bind(fd, ADDRESS(loopback), 0));
	struct sockaddr_in other = v4("198.51.100.1", 0), many = v4("224.0.0.1", 0), all = v4("255.255.255.255", 0);
	CALL("not-local", bind(fd, SA(other)));
	CALL("multicast", bind(fd, SA(many)));
	CALL("broadcast", bind(fd, SA(all)));
	struct sockaddr_in6 six = v6("::1", 0);
	CALL("inet6", bind(fd, SA(six)));
	struct sockaddr_in none = loopback;
	none.sin_family = AF_UNSPEC;
	CALL("unspecified-family", bind(fd, SA(none)));
	none.sin_family = AF_UNIX;
	CALL("unix-family", bind(fd, SA(none)));
	struct sockaddr_storage longer = { 0 };
	memcpy(&longer, &loopback, sizeof(loopback));
	CALL("longer", bind(fd, SA(longer)));
	name_step("name", fd);
	CALL("again", bind(fd, SA(loopback)));
	struct sockaddr_in same = v4("127.0.0.1", port_of(fd)), second = v4("127.0.0.2", port_of(fd));
	int rival = new_socket(AF_INET, SOCK_STREAM);
	CALL("in-use", bind(rival, SA(same)));
	CALL("same-port-other-address", bind(rival, SA(second)));
	int third = new_socket(AF_INET, SOCK_SEQPACKET);
	CALL("in-use-by-other-style", bind(third, SA(same)));
	struct sockaddr_in wildcard = v4("0.0.0.0", port_of(fd));
	CALL("wildcard-behind-address", bind(third, SA(wildcard)));
	close(fd);
	CALL("after-close", bind(third, SA(same)));
	struct sockaddr_storage name = { 0 };
	socklen_t length = 4;
	CALL("short-name", getsockname(third, ADDRESS(name), &length));
	step("short-name.length", "getsockname", text("%u", length));
}

static void bind_inet6(void)
{
	int fd = new_socket(AF_INET6, SOCK_STREAM);
	struct sockaddr_in6 loopback = v6("::1", 0), mapped = v6("::ffff:127.0.0.1", 0), link = v6("fe80::1", 0);
	struct sockaddr_in plain = v4("127.0.0.1", 0);
	CALL("short", bind(fd, ADDRESS(loopback), 16));
	CALL("link-local-without-scope", bind(fd, SA(link)));
	link.sin6_scope_id = 4711;
	CALL("link-local-wrong-scope", bind(fd, SA(link)));
	CALL("loopback", bind(fd, SA(loopback)));
	name_step("loopback.name", fd);
	addresses_step("loopback.addresses", fd);
	fd = new_socket(AF_INET6, SOCK_STREAM);
	CALL("mapped", bind(fd, SA(mapped)));
	name_step("mapped.name", fd);
	addresses_step("mapped.addresses", fd);
	fd = new_socket(AF_INET6, SOCK_STREAM);
	CALL("inet", bind(fd, SA(plain)));
	name_step("inet.name", fd);
	fd = new_socket(AF_INET6, SOCK_STREAM);
	SET_INT("only", fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	GET_INT("only.get", fd, IPPROTO_IPV6, IPV6_V6ONLY);
	CALL("only.mapped", bind(fd, SA(mapped)));
	CALL("only.inet", bind(fd, SA(plain)));
	CALL("only.loopback", bind(fd, SA(loopback)));
	SET_INT("only.after-bind", fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
	fd = new_socket(AF_INET6, SOCK_SEQPACKET);
	struct sockaddr_in6 wildcard = v6("::", 0);
	CALL("wildcard", bind(fd, SA(wildcard)));
	name_step("wildcard.name", fd);
	int rival = new_socket(AF_INET, SOCK_STREAM);
	struct sockaddr_in same = v4("127.0.0.1", port_of(fd));
	CALL("wildcard.in-use-by-inet", bind(rival, SA(same)));
	SET_INT("unmapped", fd, SOL_SCTP, SCTP_I_WANT_MAPPED_V4_ADDR, 0);
	name_step("unmapped.name", fd);
}

static void wildcard(void)
{
	int fd = new_socket(AF_INET, SOCK_SEQPACKET);
	struct sockaddr_in any = v4("0.0.0.0", 0);
	CALL("bind", bind(fd, SA(any)));
	name_step("name", fd);
	addresses_step("addresses", fd);
	int rival = new_socket(AF_INET, SOCK_STREAM);
	struct sockaddr_in one = v4("127.0.0.1", port_of(fd));
	CALL("one-address", bind(rival, SA(one)));
	CALL("bindx", sctp_bindx(fd, ADDRESS(one), 1, SCTP_BINDX_ADD_ADDR));
	CALL("bindx-remove", sctp_bindx(fd, ADDRESS(one), 1, SCTP_BINDX_REM_ADDR));
}

static void bindx(void)
{
	int fd = new_socket(AF_INET, SOCK_STREAM);
	struct sockaddr_in list[2] = { v4("127.0.0.1", 0), v4("127.0.0.2", 0) };
	CALL("no-addresses", sctp_bindx(fd, ADDRESS(list[0]), 0, SCTP_BINDX_ADD_ADDR));
	CALL("wrong-flags", sctp_bindx(fd, ADDRESS(list[0]), 1, 0));
	CALL("empty-option", setsockopt(fd, SOL_SCTP, SCTP_SOCKOPT_BINDX_ADD, list, 0));
	CALL("short-option", setsockopt(fd, SOL_SCTP, SCTP_SOCKOPT_BINDX_ADD, list, 10));
	struct sockaddr_in strange = list[0];
	strange.sin_family = 77;
	CALL("unknown-family", setsockopt(fd, SOL_SCTP, SCTP_SOCKOPT_BINDX_ADD, &strange, sizeof(strange)));
	CALL("remove-unbound", sctp_bindx(fd, ADDRESS(list[0]), 1, SCTP_BINDX_REM_ADDR));
	CALL("first", sctp_bindx(fd, ADDRESS(list[0]), 1, SCTP_BINDX_ADD_ADDR));
	addresses_step("first.addresses", fd);
	CALL("second-with-port-0", sctp_bindx(fd, ADDRESS(list[1]), 1, SCTP_BINDX_ADD_ADDR));
	addresses_step("second.addresses", fd);
	CALL("again", sctp_bindx(fd, ADDRESS(list[1]), 1, SCTP_BINDX_ADD_ADDR));
	struct sockaddr_in other_port = v4("127.0.0.3", port_of(fd) == 40000 ? 40001 : 40000);
	CALL("other-port", sctp_bindx(fd, ADDRESS(other_port), 1, SCTP_BINDX_ADD_ADDR));
	struct sockaddr_in foreign = v4("198.51.100.1", port_of(fd));
	CALL("not-local", sctp_bindx(fd, ADDRESS(foreign), 1, SCTP_BINDX_ADD_ADDR));
	CALL("remove-not-bound", sctp_bindx(fd, ADDRESS(foreign), 1, SCTP_BINDX_REM_ADDR));
	struct sockaddr_in both[2] = { v4("127.0.0.1", port_of(fd)), v4("127.0.0.2", port_of(fd)) };
	CALL("remove-all", sctp_bindx(fd, ADDRESS(both[0]), 2, SCTP_BINDX_REM_ADDR));
	addresses_step("remove-all.addresses", fd);
	CALL("remove", sctp_bindx(fd, ADDRESS(both[1]), 1, SCTP_BINDX_REM_ADDR));
	addresses_step("remove.addresses", fd);
	CALL("remove-last", sctp_bindx(fd, ADDRESS(both[0]), 1, SCTP_BINDX_REM_ADDR));
	fd = new_socket(AF_INET, SOCK_STREAM);
	CALL("two-at-once", sctp_bindx(fd, ADDRESS(list[0]), 2, SCTP_BINDX_ADD_ADDR));
	addresses_step("two-at-once.addresses", fd);
	name_step("two-at-once.name", fd);
	int six = new_socket(AF_INET6, SOCK_STREAM);
	struct {
		struct sockaddr_in6 first;
		struct sockaddr_in second;
	} __attribute__((packed)) mixed = { v6("::1", 0), v4("127.0.0.1", 0) };
	CALL("mixed-families", setsockopt(six, SOL_SCTP, SCTP_SOCKOPT_BINDX_ADD, &mixed, sizeof(mixed)));
	addresses_step("mixed-families.addresses", six);
	char small[12] = { 0 };
	socklen_t length = sizeof(small);
	CALL("short-list", getsockopt(fd, SOL_SCTP, SCTP_GET_LOCAL_ADDRS, small, &length));
}

static void reuse(void)
{
	int first = new_socket(AF_INET, SOCK_STREAM), second = new_socket(AF_INET, SOCK_STREAM);
	SET_INT("reuseaddr.first", first, SOL_SOCKET, SO_REUSEADDR, 1);
	GET_INT("reuseaddr.get", first, SOL_SOCKET, SO_REUSEADDR);
	SET_INT("reuseaddr.second", second, SOL_SOCKET, SO_REUSEADDR, 1);
	struct sockaddr_in address = v4("127.0.0.1", 0);
	CALL("reuseaddr.bind-first", bind(first, SA(address)));
	address.sin_port = htons((uint16_t)port_of(first));
	CALL("reuseaddr.bind-second", bind(second, SA(address)));
	CALL("reuseaddr.listen-first", listen(first, 5));
	CALL("reuseaddr.listen-second", listen(second, 5));
	int third = new_socket(AF_INET, SOCK_STREAM);
	SET_INT("reuseaddr.third", third, SOL_SOCKET, SO_REUSEADDR, 1);
	CALL("reuseaddr.bind-behind-listening", bind(third, SA(address)));
	first = new_socket(AF_INET, SOCK_STREAM);
	second = new_socket(AF_INET, SOCK_STREAM);
	SET_INT("reuseport.first", first, SOL_SOCKET, SO_REUSEPORT, 1);
	SET_INT("reuseport.second", second, SOL_SOCKET, SO_REUSEPORT, 1);
	address = v4("127.0.0.1", 0);
	CALL("reuseport.bind-first", bind(first, SA(address)));
	address.sin_port = htons((uint16_t)port_of(first));
	CALL("reuseport.bind-second", bind(second, SA(address)));
	CALL("reuseport.listen-first", listen(first, 5));
	CALL("reuseport.listen-second", listen(second, 5));
	SET_INT("sctp.after-bind", first, SOL_SCTP, SCTP_REUSE_PORT, 1);
	first = new_socket(AF_INET, SOCK_STREAM);
	SET_INT("sctp.first", first, SOL_SCTP, SCTP_REUSE_PORT, 1);
	GET_INT("sctp.get", first, SOL_SCTP, SCTP_REUSE_PORT);
	int many = new_socket(AF_INET, SOCK_SEQPACKET);
	SET_INT("sctp.one-to-many", many, SOL_SCTP, SCTP_REUSE_PORT, 1);
}

/* A process without privileges. */
static void privileged(void)
{
	if (setuid(65534) != 0) {
		step("setuid", "setuid", "not possible");
		return;
	}
	int fd = new_socket(AF_INET, SOCK_STREAM);
	struct sockaddr_in low = v4("127.0.0.1", 999), first = v4("127.0.0.1", 1024);
	CALL("bind", bind(fd, SA(low)));
	CALL("bindx", sctp_bindx(fd, ADDRESS(low), 1, SCTP_BINDX_ADD_ADDR));
	CALL("bind-1024", bind(fd, SA(first)));
}

/* Addresses of 127.0.0.0/8 that no interface has. */
static void loopback(void)
{
	int fd = new_socket(AF_INET, SOCK_STREAM);
	struct sockaddr_in address = v4("127.0.0.5", 0), second = v4("127.7.7.7", 0), broadcast = v4("127.255.255.255", 0);
	CALL("bind", bind(fd, SA(address)));
	addresses_step("bind.local", fd);
	CALL("bindx", sctp_bindx(fd, ADDRESS(second), 1, SCTP_BINDX_ADD_ADDR));
	addresses_step("bindx.local", fd);
	fd = new_socket(AF_INET, SOCK_SEQPACKET);
	CALL("broadcast", bind(fd, SA(broadcast)));
	CALL("one-to-many", bind(fd, SA(second)));
	fd = new_socket(AF_INET6, SOCK_STREAM);
	struct sockaddr_in6 mapped = v6("::ffff:127.0.0.6", 0);
	CALL("mapped", bind(fd, SA(mapped)));
	fd = new_socket(AF_INET, SOCK_STREAM);
	struct sockaddr_in any = v4("0.0.0.0", 0);
	CALL("wildcard", bind(fd, SA(any)));
	addresses_step("wildcard.local", fd);
}

/* The number of a new descriptor is the lowest that is free. */
static void lowest(void)
{
	int first = new_socket(AF_INET, SOCK_STREAM), file = dup(0);
	step("follows", "dup", file == first + 1 ? "the next number" : "another number");
	close(file);
	close(first);
	int again = new_socket(AF_INET, SOCK_STREAM);
	step("again", "socket", again == first ? "the same number" : "another number");
	int listener = listening(SOCK_STREAM), client = new_socket(AF_INET, SOCK_STREAM);
	struct sockaddr_in address = v4("127.0.0.1", port_of(listener));
	CALL("connect", connect(client, SA(address)));
	close(again);
	int accepted = accept(listener, NULL, NULL);
	step("accept", "accept", accepted == again ? "the same number" : "another number");
}

const struct probe_case naming_cases[] = {
	{ "name.kinds", kinds }, { "name.unbound", unbound }, { "name.bind", bind_inet }, { "name.bind-inet6", bind_inet6 },
	{ "name.wildcard", wildcard }, { "name.bindx", bindx }, { "name.reuse", reuse }, { "name.privileged", privileged },
	{ "name.loopback", loopback }, { "name.lowest", lowest },
	{ NULL, NULL },
};
