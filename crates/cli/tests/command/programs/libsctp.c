/*
 * The functions of libsctp on sockets of both styles, which are both roles of their associations. Prints each call with
 * its result, the same with each library of this name. The addresses 127.0.0.1 and 127.0.0.2 must be those of the host.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/sctp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define SHOW(call) \
	({ \
		errno = 0; \
		long value_ = (long)(call); \
		int error_ = errno; \
		printf("%s = %ld %s\n", #call, value_, value_ < 0 ? strerror(error_) : ""); \
		value_; \
	})

static struct sockaddr_in v4(const char *text, int port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	inet_pton(AF_INET, text, &address.sin_addr);
	return address;
}

static void set(int fd, int option, int value)
{
	if (setsockopt(fd, IPPROTO_SCTP, option, &value, sizeof(value)) != 0)
		perror("setsockopt");
}

/* Returns a socket with two addresses, without Nagle delay. */
static int bound(int type, int port)
{
	struct sockaddr_in both[] = { v4("127.0.0.1", port), v4("127.0.0.2", port) };
	int fd = socket(AF_INET, type, IPPROTO_SCTP);
	if (fd < 0)
		perror("socket");
	SHOW(sctp_bindx(fd, (struct sockaddr *)both, 2, SCTP_BINDX_ADD_ADDR));
	set(fd, SCTP_NODELAY, 1);
	set(fd, SCTP_RECVRCVINFO, 1);
	return fd;
}

static void print_list(const char *title, int number, struct sockaddr *list)
{
	/* The order is the stack's affair. */
	int first = 0, second = 0, port = 0;
	for (int i = 0; i < number; i++) {
		struct sockaddr_in *one = (struct sockaddr_in *)list + i;
		first += ntohl(one->sin_addr.s_addr) == 0x7f000001;
		second += ntohl(one->sin_addr.s_addr) == 0x7f000002;
		port = ntohs(one->sin_port);
	}
	printf("%s: %d addresses, %d %d, port %s\n", title, number, first, second, port == 5001 || port == 5011 ? "listening" : "other");
}

static void print_addresses(int fd, sctp_assoc_t id)
{
	struct sockaddr *list = NULL;
	int number = (int)SHOW(sctp_getpaddrs(fd, id, &list));
	if (number > 0) {
		print_list("peer", number, list);
		sctp_freepaddrs(list);
	}
	number = (int)SHOW(sctp_getladdrs(fd, id, &list));
	if (number > 0) {
		print_list("local", number, list);
		sctp_freeladdrs(list);
	}
}

static void wait_for(int fd, short events)
{
	struct pollfd entry = { fd, events, 0 };
	if (poll(&entry, 1, 10000) != 1)
		printf("nothing arrives\n");
}

/* Receives with sctp_recvv and prints what does not depend on time. Returns the association's identifier. */
static sctp_assoc_t receive(int fd)
{
	char text[64] = "";
	struct iovec part = { text, sizeof(text) - 1 };
	struct sctp_rcvinfo info = { 0 };
	struct sockaddr_in from = { 0 };
	socklen_t from_length = sizeof(from), length = sizeof(info);
	unsigned type = 99;
	int flags = 0;
	wait_for(fd, POLLIN);
	SHOW(sctp_recvv(fd, &part, 1, (struct sockaddr *)&from, &from_length, &info, &length, &type, &flags));
	printf("  %s type %u %u bytes, stream %u ssn %u flags %x ppid %u context %u id %d, flags %x, from %u bytes\n", text, type,
	       length, info.rcv_sid, info.rcv_ssn, info.rcv_flags, ntohl(info.rcv_ppid), info.rcv_context, info.rcv_assoc_id > 2,
	       (unsigned)flags, from_length);
	return info.rcv_assoc_id;
}

static void receive_old(int fd)
{
	char text[64] = "";
	struct sctp_sndrcvinfo info = { 0 };
	int flags = 0;
	wait_for(fd, POLLIN);
	SHOW(sctp_recvmsg(fd, text, sizeof(text) - 1, NULL, NULL, &info, &flags));
	printf("  %s stream %u ssn %u flags %x ppid %u, flags %x\n", text, info.sinfo_stream, info.sinfo_ssn, info.sinfo_flags,
	       ntohl(info.sinfo_ppid), (unsigned)flags);
}

/* Ancillary data of sctp_recvmsg. That of lksctp-tools 1.0.19 has no room for more. */
static void receive_sndrcvinfo(int fd)
{
	set(fd, SCTP_RECVRCVINFO, 0);
	struct sctp_event_subscribe events = { .sctp_data_io_event = 1 };
	if (setsockopt(fd, IPPROTO_SCTP, SCTP_EVENTS, &events, sizeof(events)) != 0)
		perror("SCTP_EVENTS");
}

/* Messages with each function that sends. */
static void exchange(int client, int server)
{
	struct iovec parts[] = { { "one ", 4 }, { "message", 7 } };
	struct sctp_sendv_spa spa = {
		.sendv_flags = SCTP_SEND_SNDINFO_VALID | SCTP_SEND_PRINFO_VALID,
		.sendv_sndinfo = { .snd_sid = 3, .snd_ppid = htonl(46) },
		.sendv_prinfo = { .pr_policy = SCTP_PR_SCTP_TTL, .pr_value = 60000 },
	};
	struct sctp_sndrcvinfo info = { .sinfo_stream = 2, .sinfo_ppid = htonl(18), .sinfo_flags = SCTP_UNORDERED };
	SHOW(sctp_sendv(client, parts, 2, NULL, 0, NULL, 0, SCTP_SENDV_NOINFO, 0));
	receive(server);
	SHOW(sctp_sendv(client, parts, 2, NULL, 0, &spa, sizeof(spa), SCTP_SENDV_SPA, 0));
	receive(server);
	SHOW(sctp_sendv(client, parts, 1, NULL, 0, &spa.sendv_sndinfo, sizeof(spa.sendv_sndinfo), SCTP_SENDV_SNDINFO, 0));
	receive(server);
	SHOW(sctp_sendv(client, parts, 1, NULL, 0, &spa.sendv_prinfo, sizeof(spa.sendv_prinfo), SCTP_SENDV_PRINFO, 0));
	receive(server);
	SHOW(sctp_send(client, "old", 3, &info, 0));
	receive(server);
	SHOW(sctp_sendmsg(client, "older", 5, NULL, 0, htonl(60), 0, 4, 0, 0));
	receive(server);
	info.sinfo_stream = 12345;
	SHOW(sctp_send(client, "no such stream", 14, &info, 0));
	receive_sndrcvinfo(client);
	SHOW(sctp_sendmsg(server, "back", 4, NULL, 0, htonl(47), SCTP_UNORDERED, 1, 0, 0));
	receive_old(client);
}

static void one_to_one(void)
{
	struct sockaddr_in both[] = { v4("127.0.0.1", 5001), v4("127.0.0.2", 5001) };
	int server = bound(SOCK_STREAM, 5001), client = bound(SOCK_STREAM, 5002);
	print_addresses(client, 0);
	SHOW(listen(server, 5));
	sctp_assoc_t id = 0;
	SHOW(sctp_connectx(client, (struct sockaddr *)both, 2, &id));
	printf("id %d\n", id > 2);
	int accepted = accept(server, NULL, NULL);
	if (accepted < 0)
		perror("accept");
	print_addresses(client, id);
	print_addresses(accepted, 0);
	exchange(client, accepted);
	struct sctp_status status;
	socklen_t length = sizeof(status);
	SHOW(sctp_opt_info(client, id, SCTP_STATUS, &status, &length));
	printf("state %d streams %u, %u bytes\n", status.sstat_state, status.sstat_outstrms, length);
	SHOW(sctp_peeloff(client, id));
	SHOW(shutdown(client, SHUT_WR));
	receive(accepted);
	close(accepted);
	close(client);

	client = bound(SOCK_STREAM, 5003);
	fcntl(client, F_SETFL, O_NONBLOCK);
	id = 0;
	SHOW(sctp_connectx(client, (struct sockaddr *)both, 2, &id));
	printf("id %d\n", id > 2);
	wait_for(client, POLLOUT);
	SHOW(sctp_connectx(client, (struct sockaddr *)both, 2, &id));
	close(client);
	close(server);
	SHOW(sctp_bindx(-1, (struct sockaddr *)both, 2, SCTP_BINDX_ADD_ADDR));
}

static void one_to_many(void)
{
	struct sockaddr_in both[] = { v4("127.0.0.1", 5011), v4("127.0.0.2", 5011) };
	int server = bound(SOCK_SEQPACKET, 5011), client = bound(SOCK_SEQPACKET, 5012);
	SHOW(listen(server, 5));
	struct iovec part = { "hello", 5 };
	/* The set-up, with both addresses. */
	SHOW(sctp_sendv(client, &part, 1, (struct sockaddr *)both, 2, NULL, 0, SCTP_SENDV_NOINFO, 0));
	sctp_assoc_t id = receive(server);
	print_addresses(server, id);
	struct sctp_sndinfo to = { .snd_sid = 1, .snd_assoc_id = id };
	SHOW(sctp_sendv(server, &part, 1, NULL, 0, &to, sizeof(to), SCTP_SENDV_SNDINFO, 0));
	sctp_assoc_t other = receive(client);
	print_addresses(client, other);
	SHOW(sctp_sendmsg(client, "again", 5, (struct sockaddr *)both, sizeof(both[0]), htonl(7), 0, 2, 0, 0));
	receive(server);
	SHOW(sctp_peeloff(server, id + 1000000));
	int branched = sctp_peeloff(server, id);
	printf("peeloff %d\n", branched >= 0);
	set(branched, SCTP_RECVRCVINFO, 1);
	SHOW(sctp_sendmsg(client, "branched", 8, (struct sockaddr *)both, sizeof(both[0]), 0, 0, 0, 0, 0));
	receive(branched);
	SHOW(sctp_send(branched, "answer", 6, NULL, 0));
	receive(client);
	to.snd_assoc_id = other;
	to.snd_flags = SCTP_EOF;
	SHOW(sctp_sendv(client, NULL, 0, NULL, 0, &to, sizeof(to), SCTP_SENDV_SNDINFO, 0));
	receive(branched);
	SHOW(sctp_bindx(server, (struct sockaddr *)(both + 1), 1, SCTP_BINDX_REM_ADDR));
	print_addresses(server, 0);
	close(branched);
	close(client);
	close(server);
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	one_to_one();
	one_to_many();
	return 0;
}
