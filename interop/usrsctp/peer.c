/*
 * The peer program (interop/README.md) on usrsctp: one association, driven by one loop. The threads of the stack only
 * wake it.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "assoc.h"
#include "extensions.h"
#include "messages.h"
#include "output.h"

enum {
	PIECE = 1 << 18,
	/* Bounds the memory of echoes that the peer does not read. */
	MOST_ECHO = 8 << 20,
	/* A wake-up may be missed between two checks; this limits the delay. */
	LOOK_AGAIN_MS = 5,
};

struct queued {
	struct queued *next;
	struct message message;
};

struct peer {
	struct options *options;
	struct socket *socket;
	struct check *check;
	struct source source;
	struct queued *first, **last;
	size_t queued_bytes;
	uint8_t *assembly; /* a message in arrival */
	size_t assembled, assembly_room;
	uint64_t sent_messages, sent_bytes, messages, bytes, unordered, progress_due, up_since;
	uint16_t streams_out;
	bool up, sent_printed, ending, peer_shuts, path_lost, waits;
	int error; /* of the socket, remembered until the notification that explains it */
	struct outcome outcome;
};

static int wake_up;
static volatile sig_atomic_t stop;

static void on_signal(int number)
{
	(void)number;
	stop = 1;
}

static void on_event(struct socket *socket, void *data, int flags)
{
	(void)socket, (void)data, (void)flags;
	uint64_t one = 1;
	if (write(wake_up, &one, sizeof one) < 0)
		return; /* full: the loop is awake anyway */
}

static void finish(struct peer *p, struct outcome outcome)
{
	if (!p->outcome.ended)
		p->outcome = outcome;
}

static void enqueue(struct peer *p, struct message message)
{
	struct queued *entry = malloc(sizeof *entry);
	*entry = (struct queued){ .next = NULL, .message = message };
	*p->last = entry;
	p->last = &entry->next;
	p->queued_bytes += message.length;
}

static void dequeue(struct peer *p)
{
	struct queued *entry = p->first;
	p->first = entry->next;
	if (!p->first)
		p->last = &p->first;
	p->queued_bytes -= entry->message.length;
	free(entry->message.data);
	free(entry);
}

/* Keeps one message of the source in the queue. */
static void load(struct peer *p)
{
	struct message message;
	if (source_next(&p->source, &message)) {
		enqueue(p, message);
	} else if (!p->sent_printed) {
		p->sent_printed = true;
		emit("sent", "\"messages\":%llu,\"bytes\":%llu", (unsigned long long)p->sent_messages,
		     (unsigned long long)p->sent_bytes);
	}
}

static void established(struct peer *p)
{
	p->streams_out = assoc_up(p->socket);
	p->up = true;
	p->up_since = elapsed_ms();
	if (p->options->mode == SOURCE) {
		p->source = source_new(p->options, p->streams_out);
		load(p);
	}
}

/* Returns true if --hold stops the source until a path fails. */
static bool is_held(const struct peer *p)
{
	const struct options *o = p->options;
	return o->mode == SOURCE && o->hold > 0 && p->sent_bytes >= o->hold && !p->path_lost;
}

static bool ahead_of_rate(const struct peer *p)
{
	const struct options *o = p->options;
	return o->mode == SOURCE && o->rate > 0 && p->sent_bytes * 1000.0 > (double)o->rate * (elapsed_ms() - p->up_since);
}

static const uint16_t RULES[] = { SCTP_PR_SCTP_NONE, SCTP_PR_SCTP_TTL, SCTP_PR_SCTP_RTX };

/* Sends queued messages; true if one was sent or dropped. */
static bool write_some(struct peer *p)
{
	bool moved = false;
	while (p->up && p->first && !p->ending && !p->peer_shuts && !p->waits && !is_held(p) && !ahead_of_rate(p)) {
		const struct message *m = &p->first->message;
		struct sctp_sendv_spa how = {
			.sendv_flags = SCTP_SEND_SNDINFO_VALID | SCTP_SEND_PRINFO_VALID,
			.sendv_sndinfo = { .snd_sid = m->stream, .snd_ppid = htonl(m->ppid), .snd_flags = m->unordered ? SCTP_UNORDERED : 0 },
			.sendv_prinfo = { .pr_policy = RULES[p->options->reliability], .pr_value = p->options->reliability_value },
		};
		if (m->stream >= p->streams_out) {
			check_fail(p->check, "stream %u is not one of the outbound streams", m->stream);
		} else if (usrsctp_sendv(p->socket, m->data, m->length, NULL, 0, &how, sizeof how, SCTP_SENDV_SPA, 0) >= 0) {
			p->sent_messages++;
			p->sent_bytes += m->length;
		} else if (errno == EWOULDBLOCK || errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN || errno == ESHUTDOWN ||
			   errno == ENOENT || errno == ECONNABORTED || errno == ETIMEDOUT) {
			return moved; /* no room, or the receiving side reports the error */
		} else {
			check_fail(p->check, "sending %zu bytes on stream %u: %s", m->length, m->stream, strerror(errno));
		}
		dequeue(p);
		moved = true;
		if (p->options->mode == SOURCE)
			load(p);
	}
	return moved;
}

static void message_arrived(struct peer *p, struct message message)
{
	const struct options *o = p->options;
	p->messages++;
	p->bytes += message.length;
	p->unordered += message.unordered;
	if (o->mode == ECHO) {
		uint8_t *copy = malloc(message.length);
		memcpy(copy, message.data, message.length);
		message.data = copy;
		enqueue(p, message);
		write_some(p);
	} else {
		check_message(p->check, &message);
	}
	if (o->progress && p->bytes >= p->progress_due) {
		p->progress_due = p->bytes - p->bytes % o->progress + o->progress;
		emit("progress", "\"received\":%llu,\"sent\":%llu", (unsigned long long)p->bytes, (unsigned long long)p->sent_bytes);
	}
}

static int socket_error(struct peer *p)
{
	int error = 0;
	socklen_t size = sizeof error;
	if (p->error)
		return p->error;
	usrsctp_getsockopt(p->socket, SOL_SOCKET, SO_ERROR, &error, &size);
	return error;
}

static void association_change(struct peer *p, const struct sctp_assoc_change *change)
{
	switch (change->sac_state) {
	case SCTP_COMM_UP:
		if (!p->up)
			established(p);
		break;
	case SCTP_RESTART:
		emit("restart", "");
		break;
	case SCTP_SHUTDOWN_COMP:
		finish(p, (struct outcome){ "shutdown", p->ending && !p->peer_shuts ? "self" : "peer", 0 });
		break;
	case SCTP_CANT_STR_ASSOC:
		finish(p, (struct outcome){ "refused", "self", change->sac_error });
		break;
	case SCTP_COMM_LOST: {
		int error = socket_error(p);
		/* A received ABORT is attached; without one it is a timeout, or this side has aborted. */
		if (error == 0 && change->sac_length > sizeof *change)
			error = ECONNRESET;
		finish(p, assoc_broken(error, p->up, change->sac_error));
		break;
	}
	default:
		break;
	}
}

static const char *path_state(uint32_t state)
{
	switch (state) {
	case SCTP_ADDR_AVAILABLE: return "reachable";
	case SCTP_ADDR_UNREACHABLE: return "unreachable";
	case SCTP_ADDR_REMOVED: return "removed";
	case SCTP_ADDR_ADDED: return "added";
	case SCTP_ADDR_MADE_PRIM: return "primary";
	case SCTP_ADDR_CONFIRMED: return "confirmed";
	default: return "unknown";
	}
}

static void notification(struct peer *p, const union sctp_notification *n)
{
	char text[64];
	switch (n->sn_header.sn_type) {
	case SCTP_ASSOC_CHANGE:
		association_change(p, &n->sn_assoc_change);
		break;
	case SCTP_PEER_ADDR_CHANGE:
		emit("path", "\"addr\":\"%s\",\"state\":\"%s\"",
		     address_text((const struct sockaddr *)&n->sn_paddr_change.spc_aaddr, text, sizeof text),
		     path_state(n->sn_paddr_change.spc_state));
		p->path_lost |= n->sn_paddr_change.spc_state == SCTP_ADDR_UNREACHABLE;
		break;
	case SCTP_SHUTDOWN_EVENT:
		p->peer_shuts = true;
		emit("shutdown", "");
		break;
	case SCTP_PARTIAL_DELIVERY_EVENT:
		p->assembled = 0;
		if (!p->options->gaps)
			check_fail(p->check, "a partial delivery was aborted");
		break;
	case SCTP_STREAM_RESET_EVENT:
	case SCTP_ASSOC_RESET_EVENT:
	case SCTP_STREAM_CHANGE_EVENT:
		extensions_notification(n);
		break;
	default:
		break;
	}
}

static void piece_arrived(struct peer *p, const uint8_t *data, size_t size, const struct sctp_rcvinfo *info, bool whole)
{
	if (p->assembled + size > p->assembly_room) {
		p->assembly_room = 2 * (p->assembled + size);
		p->assembly = realloc(p->assembly, p->assembly_room);
	}
	memcpy(p->assembly + p->assembled, data, size);
	p->assembled += size;
	if (!whole)
		return;
	message_arrived(p, (struct message){
		.stream = info->rcv_sid, .ppid = ntohl(info->rcv_ppid), .unordered = info->rcv_flags & SCTP_UNORDERED,
		.length = p->assembled, .data = p->assembly,
	});
	p->assembled = 0;
}

/* Reads all available messages and notifications; true if there was one. */
static bool read_some(struct peer *p)
{
	static uint8_t data[PIECE] __attribute__((aligned(8)));
	bool any = false;
	while (!p->outcome.ended && p->queued_bytes < MOST_ECHO) {
		struct sctp_rcvinfo info = { 0 };
		struct sockaddr_storage from;
		socklen_t from_size = sizeof from, info_size = sizeof info;
		unsigned int info_type = 0;
		int flags = 0;
		ssize_t size = usrsctp_recvv(p->socket, data, sizeof data, (struct sockaddr *)&from, &from_size, &info, &info_size,
					     &info_type, &flags);
		if (size < 0 && (errno == EWOULDBLOCK || (errno == ENOTCONN && !p->up)))
			return any;
		if (size < 0 && !p->error) {
			p->error = errno; /* queued messages and the notification follow */
		} else if (size < 0) {
			finish(p, assoc_broken(p->error, p->up, 0));
		} else if (flags & MSG_NOTIFICATION) {
			notification(p, (const union sctp_notification *)data);
		} else if (size == 0) {
			finish(p, p->error ? assoc_broken(p->error, p->up, 0)
					   : (struct outcome){ "shutdown", p->ending ? "self" : "peer", 0 });
		} else {
			piece_arrived(p, data, size, &info, flags & MSG_EOR);
		}
		any = true;
	}
	return any;
}

static void end_if_done(struct peer *p)
{
	const struct options *o = p->options;
	bool awaits_peer = o->end == END_WAIT || (o->mode != SOURCE && o->expect == 0);
	if (awaits_peer || p->ending || p->peer_shuts || !p->up || p->outcome.ended)
		return;
	if (o->done < o->planned_count || p->first || (o->mode == SOURCE && p->source.left > 0) || p->bytes < o->expect)
		return;
	p->ending = true;
	if (o->end == END_SHUTDOWN) {
		usrsctp_shutdown(p->socket, SHUT_WR);
		return;
	}
	struct sctp_sndinfo info = { .snd_flags = SCTP_ABORT };
	if (usrsctp_sendv(p->socket, "", 0, NULL, 0, &info, sizeof info, SCTP_SENDV_SNDINFO, 0) < 0)
		check_fail(p->check, "aborting: %s", strerror(errno));
	finish(p, (struct outcome){ "abort", "self", 0 });
}

static void wait_for_event(void)
{
	struct pollfd ready = { .fd = wake_up, .events = POLLIN };
	uint64_t count;
	if (poll(&ready, 1, LOOK_AGAIN_MS) > 0 && read(wake_up, &count, sizeof count) < 0)
		return; /* the next check detects it */
}

static void check_limits(struct peer *p)
{
	if (stop)
		finish(p, (struct outcome){ "failed", "self", 0 });
	else if (elapsed_ms() > p->options->time_limit * UINT64_C(1000))
		finish(p, (struct outcome){ "timeout", "self", 0 });
}

static void accept_one(struct peer *p)
{
	struct socket *accepted = NULL;
	while (!accepted && !p->outcome.ended) {
		wait_for_event();
		accepted = usrsctp_accept(p->socket, NULL, NULL);
		check_limits(p);
	}
	if (!accepted)
		return;
	usrsctp_close(p->socket);
	p->socket = accepted;
	usrsctp_set_non_blocking(accepted, 1);
	usrsctp_set_upcall(accepted, on_event, NULL);
	established(p); /* COMM_UP was for the listening socket, or the association is established already */
}

static int report(struct peer *p)
{
	const struct options *o = p->options;
	struct outcome *end = &p->outcome;
	bool shutdown = strcmp(end->ended, "shutdown") == 0, abort = strcmp(end->ended, "abort") == 0;
	if (!shutdown && !abort) {
		struct linger now = { .l_onoff = 1, .l_linger = 0 };
		usrsctp_setsockopt(p->socket, SOL_SOCKET, SO_LINGER, &now, sizeof now);
		usrsctp_close(p->socket); /* with an ABORT */
	}
	if (shutdown && o->mode != ECHO && !o->gaps)
		check_complete(p->check);
	bool ok = (shutdown || abort) && check_errors(p->check) == 0 && p->bytes >= o->expect;
	if (o->mode == SOURCE && !(abort && strcmp(end->by, "peer") == 0))
		ok = ok && p->sent_bytes == o->bytes;
	emit("end",
	     "\"ok\":%s,\"ended\":\"%s\",\"by\":\"%s\",\"cause\":%u,\"sent\":{\"messages\":%llu,\"bytes\":%llu},"
	     "\"received\":{\"messages\":%llu,\"bytes\":%llu,\"unordered\":%llu},\"errors\":%lu",
	     ok ? "true" : "false", end->ended, end->by, end->cause, (unsigned long long)p->sent_messages,
	     (unsigned long long)p->sent_bytes, (unsigned long long)p->messages, (unsigned long long)p->bytes,
	     (unsigned long long)p->unordered, check_errors(p->check));
	return ok ? 0 : 1;
}

int main(int argc, char **argv)
{
	struct options options = parse_options(argc, argv);
	struct peer p = { .options = &options, .progress_due = options.progress };
	p.last = &p.first;
	p.check = check_new();
	signal(SIGPIPE, SIG_IGN);
	signal(SIGTERM, on_signal);
	signal(SIGINT, on_signal);
	wake_up = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	p.socket = assoc_socket(&options);
	usrsctp_set_upcall(p.socket, on_event, NULL);
	assoc_start(p.socket, &options);
	if (options.listen)
		accept_one(&p);
	while (!p.outcome.ended) {
		bool moved = read_some(&p);
		moved |= write_some(&p);
		if (p.up && !p.peer_shuts)
			p.waits = extensions_do(p.socket, &options, p.sent_bytes + p.bytes);
		end_if_done(&p);
		check_limits(&p);
		if (!moved && !p.outcome.ended)
			wait_for_event();
	}
	int status = report(&p);
	uint64_t until = elapsed_ms() + options.linger * UINT64_C(1000);
	while (!stop && elapsed_ms() < until)
		usleep(20000);
	/* usrsctp_finish() may wait for associations for ever; the end of the process ends them all. */
	_exit(status);
}
