/* Sockets, associations and messages, as the cases need them. */
#include "probe.h"

enum { LARGEST = 1 << 20 };

struct sockaddr_in v4(const char *address, int port)
{
	struct sockaddr_in inet = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	inet_pton(AF_INET, address, &inet.sin_addr);
	return inet;
}

struct sockaddr_in6 v6(const char *address, int port)
{
	struct sockaddr_in6 inet6 = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
	inet_pton(AF_INET6, address, &inet6.sin6_addr);
	return inet6;
}

int new_socket(int family, int type)
{
	int fd = socket(family, type, IPPROTO_SCTP);
	if (fd < 0)
		fail("socket");
	return fd;
}

int bound(int type, const char *address)
{
	int fd = new_socket(AF_INET, type);
	struct sockaddr_in inet = v4(address, 0);
	if (bind(fd, SA(inet)) != 0)
		fail("bind");
	return fd;
}

int listening(int type)
{
	int fd = bound(type, "127.0.0.1");
	if (listen(fd, 5) != 0)
		fail("listen");
	return fd;
}

int port_of(int fd)
{
	struct sockaddr_storage name;
	socklen_t length = sizeof(name);
	if (getsockname(fd, ADDRESS(name), &length) != 0)
		fail("getsockname");
	return ntohs(((struct sockaddr_in *)&name)->sin_port);
}

void nonblocking(int fd)
{
	if (fcntl(fd, F_SETFL, O_NONBLOCK) != 0)
		fail("O_NONBLOCK");
}

void subscribe(int fd, int kind, int on)
{
	struct sctp_event event = { .se_assoc_id = SCTP_ALL_ASSOC, .se_type = (uint16_t)kind, .se_on = (uint8_t)on };
	if (setsockopt(fd, SOL_SCTP, SCTP_EVENT, &event, sizeof(event)) != 0)
		fail("SCTP_EVENT");
}

/* All notifications but SENDER_DRY, which depends on the time of acknowledgements. */
void subscribe_all(int fd)
{
	for (int kind = SCTP_ASSOC_CHANGE; kind <= SCTP_SEND_FAILED_EVENT; kind++)
		if (kind != SCTP_SENDER_DRY_EVENT)
			subscribe(fd, kind, 1);
}

sctp_assoc_t first_id(int fd)
{
	char buffer[sizeof(struct sctp_assoc_ids) + 16 * sizeof(sctp_assoc_t)] = { 0 };
	struct sctp_assoc_ids *ids = (struct sctp_assoc_ids *)buffer;
	socklen_t length = sizeof(buffer);
	if (getsockopt(fd, SOL_SCTP, SCTP_GET_ASSOC_ID_LIST, ids, &length) == 0)
		return ids->gaids_number_of_ids > 0 ? ids->gaids_assoc_id[0] : 0;
	struct sctp_status status = { 0 };
	length = sizeof(status);
	return getsockopt(fd, SOL_SCTP, SCTP_STATUS, &status, &length) == 0 ? status.sstat_assoc_id : 0;
}

static void no_delay(int fd)
{
	int on = 1;
	if (setsockopt(fd, SOL_SCTP, SCTP_NODELAY, &on, sizeof(on)) != 0)
		fail("SCTP_NODELAY");
}

void with_small_buffer(int fd)
{
	int size = 10000;
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
}

int fill(int fd)
{
	enum { MOST = 100000 };
	char message[1000];
	int total = 0, round = 1;
	for (size_t i = 0; i < sizeof(message); i++)
		message[i] = (char)(i % 251);
	while (round > 0 && total < MOST) {
		for (round = 0; round < MOST && send(fd, message, sizeof(message), MSG_DONTWAIT) > 0; round++)
			;
		total += round;
		/* Acknowledgements make room. */
		pause_ms(QUIET);
	}
	return total;
}

void receive_sndrcv(int fd)
{
	struct sctp_event_subscribe events = { .sctp_data_io_event = 1 };
	if (setsockopt(fd, SOL_SCTP, SCTP_EVENTS, &events, sizeof(events)) != 0)
		fail("SCTP_EVENTS");
}

void subscribe_none(int fd)
{
	struct sctp_event_subscribe events = { 0 };
	if (setsockopt(fd, SOL_SCTP, SCTP_EVENTS, &events, sizeof(events)) != 0)
		fail("SCTP_EVENTS");
}

struct pair connected(void (*prepare)(int fd))
{
	/* Each has one address: further ones would be confirmed by heartbeats at a random time. */
	struct pair pair = { .listener = bound(SOCK_STREAM, "127.0.0.1"), .client = bound(SOCK_STREAM, "127.0.0.1") };
	no_delay(pair.listener);
	no_delay(pair.client);
	if (prepare != NULL) {
		prepare(pair.listener);
		prepare(pair.client);
	}
	if (listen(pair.listener, 5) != 0)
		fail("listen");
	pair.server_address = v4("127.0.0.1", port_of(pair.listener));
	if (connect(pair.client, SA(pair.server_address)) != 0)
		fail("connect");
	pair.server = accept(pair.listener, NULL, NULL);
	if (pair.server < 0)
		fail("accept");
	/* Until the COOKIE ACK and the chunks behind it have been processed. */
	pause_ms(50);
	return pair;
}

struct pair associated(void (*prepare)(int fd))
{
	struct pair pair = { .server = bound(SOCK_SEQPACKET, "127.0.0.1"), .client = bound(SOCK_SEQPACKET, "127.0.0.1") };
	pair.listener = pair.server;
	if (listen(pair.server, 5) != 0)
		fail("listen");
	no_delay(pair.server);
	no_delay(pair.client);
	if (prepare != NULL) {
		prepare(pair.server);
		prepare(pair.client);
	}
	pair.server_address = v4("127.0.0.1", port_of(pair.server));
	if (sendto(pair.client, "first", 5, 0, SA(pair.server_address)) != 5)
		fail("sendto");
	char buffer[1024];
	struct iovec part = { buffer, sizeof(buffer) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	do {
		message.msg_flags = 0;
		if (!wait_for(pair.server, POLLIN, 5000) || recvmsg(pair.server, &message, MSG_DONTWAIT) < 0)
			fail("receiving the first message");
	} while (message.msg_flags & MSG_NOTIFICATION);
	pair.client_id = first_id(pair.client);
	pair.server_id = first_id(pair.server);
	discard(pair.client);
	return pair;
}

ssize_t send_control(int fd, const struct sockaddr_in *to, const char *data, int type, const void *value, size_t length)
{
	_Alignas(struct cmsghdr) char control[256] = { 0 };
	struct iovec part = { (void *)data, data == NULL ? 0 : strlen(data) };
	struct msghdr message = {
		.msg_name = (void *)to, .msg_namelen = to == NULL ? 0 : sizeof(*to), .msg_iov = &part, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = CMSG_SPACE(length),
	};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	header->cmsg_level = IPPROTO_SCTP;
	header->cmsg_type = type;
	header->cmsg_len = CMSG_LEN(length);
	memcpy(CMSG_DATA(header), value, length);
	return sendmsg(fd, &message, MSG_DONTWAIT);
}

ssize_t send_info(int fd, const struct sockaddr_in *to, const char *data, struct sctp_sndinfo info)
{
	return send_control(fd, to, data, SCTP_SNDINFO, &info, sizeof(info));
}

void pause_ms(int milliseconds)
{
	poll(NULL, 0, milliseconds);
}

bool wait_for(int fd, int events, int milliseconds)
{
	struct pollfd entry = { fd, (short)events, 0 };
	return poll(&entry, 1, milliseconds) > 0;
}

int events_now(int fd)
{
	struct pollfd entry = { fd, POLLIN | POLLPRI | POLLOUT | POLLRDHUP, 0 };
	if (poll(&entry, 1, 0) < 0)
		fail("poll");
	return entry.revents;
}

void poll_step(const char *name, int fd)
{
	step(name, "poll", poll_text(events_now(fd)));
}

/* Waits for one of `events` or an error, and reports all events. */
void wait_poll_step(const char *name, int fd, int events)
{
	wait_for(fd, events, SOON);
	poll_step(name, fd);
}

static char buffer[LARGEST];

/* Receives available messages; `what` and `result` are the texts of a step. */
static ssize_t receive_now(int fd, size_t size, size_t control_size, int flags, const char **what, const char **result)
{
	_Alignas(struct cmsghdr) char control[512];
	struct sockaddr_storage from = { 0 };
	struct iovec part = { buffer, size };
	struct msghdr message = {
		.msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &part, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = control_size,
	};
	errno = 0;
	ssize_t length = recvmsg(fd, &message, flags | MSG_DONTWAIT);
	int error = errno;
	*what = flags == 0 ? text("recvmsg %zu", size) : text("recvmsg %zu %s", size, flags_text(flags));
	if (length < 0) {
		*result = text("-1 %s", error_name(error));
		errno = error;
		return length;
	}
	const char *content = message.msg_flags & MSG_NOTIFICATION ? notification_text(buffer, (size_t)length)
								   : bytes_text(buffer, (size_t)length);
	const char *peer = message.msg_namelen == 0 ? "" : text(" from %s", address_name(&from, message.msg_namelen));
	*result = text("%zd %s flags=%s%s%s", length, content, flags_text(message.msg_flags), peer, control_text(&message));
	return length;
}

ssize_t receive_with(const char *name, int fd, size_t size, size_t control_size, int flags)
{
	const char *what, *result;
	wait_for(fd, POLLIN, SOON);
	ssize_t length = receive_now(fd, size, control_size, flags, &what, &result);
	step(name, what, result);
	return length;
}

ssize_t receive(const char *name, int fd)
{
	return receive_with(name, fd, LARGEST, 512, 0);
}

void drain(const char *name, int fd)
{
	enum { MOST = 30 };
	for (int i = 1; i <= MOST; i++) {
		const char *what, *result;
		if (!wait_for(fd, POLLIN | POLLRDHUP, QUIET)) {
			step(text("%s.end", name), "recvmsg", "nothing more");
			return;
		}
		ssize_t length = receive_now(fd, LARGEST, 512, 0, &what, &result);
		step(length > 0 ? text("%s.%d", name, i) : text("%s.end", name), what, result);
		if (length <= 0)
			return;
	}
	step(text("%s.end", name), "recvmsg", "there is more");
}

void discard(int fd)
{
	while (wait_for(fd, POLLIN, QUIET) && recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT) > 0)
		;
}
