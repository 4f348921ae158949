/*
 * Prints what each function of libsctp passes to getsockopt, setsockopt, sendmsg and recvmsg, which this program defines
 * itself, and what it makes of their results. Two libraries with the same output are interchangeable.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/sctp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

/* Results of the next calls. */
static int result, failure;
/* Number of addresses that getsockopt returns. */
static int addresses;
/* Ancillary data that recvmsg returns, in this order; -1 ends the list. */
static int attributes[4] = { -1 };

static void print_bytes(const char *title, const void *bytes, size_t length)
{
	printf("  %s %zu:", title, length);
	for (size_t i = 0; i < length; i++)
		printf(" %02x", ((const unsigned char *)bytes)[i]);
	printf("\n");
}

static int ended(int value)
{
	if (failure != 0) {
		errno = failure;
		return -1;
	}
	return value;
}

static void print_addresses(const char *title, const struct sockaddr *list, int number)
{
	const char *at = (const char *)list;
	for (int i = 0; i < number; i++) {
		size_t length = ((const struct sockaddr *)at)->sa_family == AF_INET ? sizeof(struct sockaddr_in)
										    : sizeof(struct sockaddr_in6);
		print_bytes(title, at, length);
		at += length;
	}
}

int getsockopt(int fd, int level, int name, void *value, socklen_t *length)
{
	struct sctp_getaddrs *list = value;
	if (name == SCTP_GET_PEER_ADDRS || name == SCTP_GET_LOCAL_ADDRS) {
		/* The library chooses the size of the buffer, and repeats the call if it was too small. */
		socklen_t size = sizeof(*list) + (socklen_t)addresses * sizeof(struct sockaddr_in6);
		if (*length < size) {
			errno = ENOMEM;
			return -1;
		}
		list->addr_num = (__u32)addresses;
		for (int i = 0; i < addresses; i++) {
			struct sockaddr_in6 one = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)i) };
			memcpy(list->addrs + (size_t)i * sizeof(one), &one, sizeof(one));
		}
		printf("  getsockopt %d level %d option %d, id %d\n", fd, level, name, list->assoc_id);
		*length = size;
		return ended(0);
	}
	printf("  getsockopt %d level %d option %d size %u\n", fd, level, name, *length);
	if (name == SCTP_SOCKOPT_CONNECTX3) {
		struct { int id; int size; struct sockaddr *list; } *arguments = value;
		print_bytes("addresses", arguments->list, (size_t)arguments->size);
		printf("  id %d\n", arguments->id);
		arguments->id = 77;
		*length = sizeof(int);
	} else if (name == SCTP_SOCKOPT_PEELOFF) {
		print_bytes("value", value, sizeof(sctp_assoc_t));
		((sctp_peeloff_arg_t *)value)->sd = 23;
	} else if (value != NULL) {
		print_bytes("value", value, *length);
	}
	return ended(result);
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t length)
{
	printf("  setsockopt %d level %d option %d\n", fd, level, name);
	print_bytes("value", value, length);
	return ended(result);
}

static void print_message(const struct msghdr *message)
{
	if (message->msg_name == NULL)
		printf("  no name\n");
	else
		print_bytes("name", message->msg_name, message->msg_namelen);
	for (size_t i = 0; i < message->msg_iovlen; i++)
		print_bytes("part", message->msg_iov[i].iov_base, message->msg_iov[i].iov_len);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	printf("  sendmsg %d flags %x\n", fd, (unsigned)flags);
	print_message(message);
	struct msghdr copy = *message;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&copy); c != NULL; c = CMSG_NXTHDR(&copy, c)) {
		printf("  level %d type %d", c->cmsg_level, c->cmsg_type);
		print_bytes("", CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
	}
	return ended(result);
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	printf("  recvmsg %d flags %x\n", fd, (unsigned)flags);
	if (failure != 0)
		return ended(-1);
	struct sockaddr_in from = { .sin_family = AF_INET, .sin_port = htons(9) };
	if (message->msg_name != NULL) {
		socklen_t space = message->msg_namelen;
		memcpy(message->msg_name, &from, space < sizeof(from) ? space : sizeof(from));
	}
	message->msg_namelen = sizeof(from);
	strcpy(message->msg_iov[0].iov_base, "hello");
	message->msg_flags = MSG_EOR;
	size_t space = message->msg_controllen, used = 0;
	for (int i = 0; attributes[i] >= 0; i++) {
		size_t length = attributes[i] == SCTP_SNDRCV ? sizeof(struct sctp_sndrcvinfo)
			      : attributes[i] == SCTP_RCVINFO ? sizeof(struct sctp_rcvinfo)
							     : sizeof(struct sctp_nxtinfo);
		if (used + CMSG_SPACE(length) > space) {
			printf("  no space for type %d\n", attributes[i]);
			message->msg_flags |= MSG_CTRUNC;
			break;
		}
		struct cmsghdr *c = (struct cmsghdr *)((char *)message->msg_control + used);
		c->cmsg_level = IPPROTO_SCTP;
		c->cmsg_type = attributes[i];
		c->cmsg_len = CMSG_LEN(length);
		for (size_t at = 0; at < length; at++)
			CMSG_DATA(c)[at] = (unsigned char)(at + 1 + 100 * (size_t)i);
		used += CMSG_SPACE(length);
	}
	message->msg_controllen = used;
	return 5;
}

static void expect(int value, int error)
{
	result = value;
	failure = error;
}

/* Prints a call and its result; errno only where the library or a call has set it. */
#define SHOW(call) \
	do { \
		printf("%s\n", #call); \
		errno = 0; \
		long value_ = (long)(call); \
		int error_ = errno; \
		printf("  = %ld %s\n", value_, value_ < 0 ? strerror(error_) : ""); \
	} while (0)

static struct sockaddr_in v4(const char *text, uint16_t port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
	inet_pton(AF_INET, text, &address.sin_addr);
	return address;
}

static struct sockaddr_in6 v6(const char *text, uint16_t port)
{
	struct sockaddr_in6 address = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	inet_pton(AF_INET6, text, &address.sin6_addr);
	return address;
}

static struct {
	struct sockaddr_in first, second;
	struct sockaddr_in6 third;
	struct sockaddr unknown;
} list; /* without padding between the members */

static void addresses_of_sockets(void)
{
	struct sockaddr *all = (struct sockaddr *)&list;
	expect(0, 0);
	SHOW(sctp_bindx(3, all, 1, SCTP_BINDX_ADD_ADDR));
	SHOW(sctp_bindx(3, all, 3, SCTP_BINDX_REM_ADDR));
	SHOW(sctp_bindx(3, all, 4, SCTP_BINDX_ADD_ADDR));
	SHOW(sctp_bindx(3, all, 0, SCTP_BINDX_ADD_ADDR));
	SHOW(sctp_bindx(3, all, 1, 0));
	SHOW(sctp_bindx(3, all, 1, SCTP_BINDX_ADD_ADDR | SCTP_BINDX_REM_ADDR));
	expect(0, EADDRINUSE);
	SHOW(sctp_bindx(3, all, 2, SCTP_BINDX_ADD_ADDR));

	static const int errors[] = { 0, EINPROGRESS, ECONNREFUSED };
	for (size_t i = 0; i < 3; i++) {
		sctp_assoc_t id = 5;
		expect(0, errors[i]);
		SHOW(sctp_connectx(4, all, 3, &id));
		printf("  id %d\n", id);
	}
	expect(0, 0);
	SHOW(sctp_connectx(4, all, 1, NULL));
	SHOW(sctp_connectx(4, all, 4, NULL));
	SHOW(sctp_connectx(4, all, 0, NULL));
	static const char *const versions[] = { "VERS_1", "VERS_2", "VERS_3" };
	void *library = dlopen("libsctp.so.1", RTLD_NOW);
	for (size_t i = 0; i < 3; i++) {
		int (*connectx)(int, struct sockaddr *, int, sctp_assoc_t *) = dlvsym(library, "sctp_connectx", versions[i]);
		sctp_assoc_t id = 5;
		printf("%s\n", versions[i]);
		expect(i == 1 ? 42 : 0, 0);
		SHOW(connectx(4, all, 2, &id));
		printf("  id %d\n", id);
		expect(0, ECONNREFUSED);
		SHOW(connectx(4, all, 2, &id));
		printf("  id %d\n", id);
	}

	for (addresses = 0; addresses < 500; addresses = addresses * 5 + 1) {
		struct sockaddr *found = NULL;
		expect(0, 0);
		printf("%d addresses\n", addresses);
		int number = sctp_getpaddrs(5, 9, &found);
		printf("  %d addresses, %d\n", number, number > 0);
		print_addresses("address", found, number > 2 ? 2 : number);
		if (number > 0)
			SHOW(sctp_freepaddrs(found));
		number = sctp_getladdrs(5, 9, &found);
		printf("  %d addresses\n", number);
		if (number > 0)
			SHOW(sctp_freeladdrs(found));
	}
	addresses = 1;
	struct sockaddr *found = NULL;
	expect(0, EINVAL);
	SHOW(sctp_getpaddrs(5, 9, &found));
	SHOW(sctp_getladdrs(5, 9, &found));
	for (int family = 0; family < 12; family++)
		SHOW(sctp_getaddrlen((sa_family_t)family));
}

static void options(void)
{
	struct sctp_status status = { 0 };
	socklen_t length = sizeof(status);
	expect(0, 0);
	SHOW(sctp_opt_info(6, 11, SCTP_STATUS, &status, &length));
	expect(0, EBADF);
	SHOW(sctp_opt_info(6, 11, SCTP_STATUS, &status, &length));
	expect(0, 0);
	SHOW(sctp_peeloff(7, 12));
	expect(0, EINVAL);
	SHOW(sctp_peeloff(7, 12));
}

static void sending(void)
{
	struct sctp_sndrcvinfo info;
	memset(&info, 7, sizeof(info));
	expect(3, 0);
	struct sockaddr *to = (struct sockaddr *)&list.first;
	SHOW(sctp_sendmsg(8, "abc", 3, to, sizeof(list.first), htonl(46), SCTP_UNORDERED, 2, 3, 4));
	SHOW(sctp_sendmsg(8, "abc", 3, NULL, 0, htonl(46), SCTP_EOF, 2, 3, 4));
	SHOW(sctp_send(8, "abc", 3, &info, MSG_NOSIGNAL));
	SHOW(sctp_send(8, "abc", 3, NULL, 0));
	expect(0, EPIPE);
	SHOW(sctp_sendmsg(8, "abc", 3, NULL, 0, 0, 0, 0, 0, 0));
	SHOW(sctp_send(8, "abc", 3, &info, 0));
	expect(3, 0);

	struct iovec parts[] = { { "ab", 2 }, { "c", 1 } };
	struct sockaddr *all = (struct sockaddr *)&list;
	struct sctp_sendv_spa spa;
	memset(&spa, 9, sizeof(spa));
	for (int number = 0; number < 4; number++)
		SHOW(sctp_sendv(8, parts, 2, number == 0 ? NULL : all, number, NULL, 0, SCTP_SENDV_NOINFO, 0));
	SHOW(sctp_sendv(8, parts, 1, all, 1, &spa.sendv_sndinfo, sizeof(spa.sendv_sndinfo), SCTP_SENDV_SNDINFO, 0));
	SHOW(sctp_sendv(8, parts, 1, all, 1, &spa.sendv_prinfo, sizeof(spa.sendv_prinfo), SCTP_SENDV_PRINFO, 0));
	SHOW(sctp_sendv(8, parts, 1, all, 1, &spa.sendv_authinfo, sizeof(spa.sendv_authinfo), SCTP_SENDV_AUTHINFO, 0));
	SHOW(sctp_sendv(8, parts, 1, all, 2, &spa.sendv_sndinfo, sizeof(spa.sendv_sndinfo), SCTP_SENDV_SNDINFO, 0));
	for (spa.sendv_flags = 0; spa.sendv_flags < 7; spa.sendv_flags++)
		SHOW(sctp_sendv(8, parts, 1, NULL, 0, &spa, sizeof(spa), SCTP_SENDV_SPA, 0));
	expect(0, EAGAIN);
	SHOW(sctp_sendv(8, parts, 1, NULL, 0, NULL, 0, SCTP_SENDV_NOINFO, 0));
}

static void receive_with(int first, int second, int third)
{
	attributes[0] = first;
	attributes[1] = second;
	attributes[2] = third;
	attributes[3] = -1;
	char text[16] = "";
	struct sockaddr_storage from = { 0 };
	socklen_t length = sizeof(from);
	struct sctp_sndrcvinfo info;
	memset(&info, 0, sizeof(info));
	int flags = MSG_PEEK;
	printf("receive %d %d %d\n", first, second, third);
	SHOW(sctp_recvmsg(9, text, sizeof(text), (struct sockaddr *)&from, &length, &info, &flags));
	printf("  %s flags %x\n", text, (unsigned)flags);
	print_bytes("from", &from, length);
	print_bytes("info", &info, sizeof(info));
	SHOW(sctp_recvmsg(9, text, sizeof(text), NULL, NULL, NULL, NULL));

	struct iovec part = { text, sizeof(text) };
	struct sctp_recvv_rn both;
	static const socklen_t sizes[] = { 0, 15, 16, 27, 28, 43, 44, 48 };
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		socklen_t size = sizes[i];
		memset(&both, 0, sizeof(both));
		unsigned type = 99;
		socklen_t used = size;
		flags = MSG_DONTWAIT;
		length = sizeof(from);
		printf("%u bytes\n", size);
		SHOW(sctp_recvv(9, &part, 1, (struct sockaddr *)&from, &length, &both, &used, &type, &flags));
		printf("  flags %x type %u of %u bytes\n", (unsigned)flags, type, used);
		print_bytes("info", &both, sizeof(both));
	}
}

/*
 * Calls for which libsctp of lksctp-tools 1.0.19 does not do what RFC 6458, sections 9.12 and 9.13, states: sctp_sendv
 * ignores flags and sizes, returns -EINVAL, and writes beyond a buffer, and sctp_recvv has no room for both attributes.
 */
static void calls_by_the_rfc(void)
{
	struct iovec part = { "ab", 2 };
	struct sctp_sendv_spa spa;
	memset(&spa, 9, sizeof(spa));
	expect(2, 0);
	SHOW(sctp_sendv(8, &part, 1, NULL, 0, NULL, 0, SCTP_SENDV_NOINFO, MSG_DONTWAIT));
	spa.sendv_flags = SCTP_SEND_SNDINFO_VALID | SCTP_SEND_PRINFO_VALID | SCTP_SEND_AUTHINFO_VALID;
	SHOW(sctp_sendv(8, &part, 1, NULL, 0, &spa, sizeof(spa), SCTP_SENDV_SPA, 0));
	SHOW(sctp_sendv(8, &part, 1, NULL, 0, &spa, sizeof(spa) - 1, SCTP_SENDV_SPA, 0));
	SHOW(sctp_sendv(8, &part, 1, NULL, 0, &spa, sizeof(spa), SCTP_SENDV_SPA + 1, 0));
	SHOW(sctp_sendv(8, &part, 1, (struct sockaddr *)&list.unknown, 1, NULL, 0, SCTP_SENDV_NOINFO, 0));
	receive_with(SCTP_RCVINFO, SCTP_NXTINFO, -1);
	receive_with(SCTP_NXTINFO, SCTP_RCVINFO, -1);
}

static void receiving(void)
{
	expect(0, 0);
	receive_with(-1, -1, -1);
	receive_with(SCTP_SNDRCV, -1, -1);
	receive_with(SCTP_RCVINFO, -1, -1);
	receive_with(SCTP_NXTINFO, -1, -1);
	char text[16] = "";
	struct iovec part = { text, sizeof(text) };
	struct sctp_recvv_rn both;
	socklen_t used = sizeof(both);
	unsigned type = 99;
	int flags = 0;
	attributes[0] = -1;
	SHOW(sctp_recvv(9, &part, 1, NULL, NULL, &both, &used, &type, &flags));
	expect(0, EAGAIN);
	int before = flags = MSG_DONTWAIT;
	SHOW(sctp_recvmsg(9, text, sizeof(text), NULL, NULL, NULL, &flags));
	SHOW(sctp_recvv(9, &part, 1, NULL, NULL, &both, &used, &type, &flags));
	printf("  flags %s\n", flags == before ? "unchanged" : "changed");
}

int main(int arguments, char **argument)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	list.first = v4("192.0.2.1", 5000);
	list.second = v4("192.0.2.2", 5000);
	list.third = v6("2001:db8::1", 5000);
	list.unknown.sa_family = AF_UNIX;
	if (arguments > 1 && strcmp(argument[1], "rfc") == 0) {
		calls_by_the_rfc();
		return 0;
	}
	addresses_of_sockets();
	options();
	sending();
	receiving();
	return 0;
}
