#include "options.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Noreturn void wrong(const char *format, ...)
{
	va_list rest;
	fprintf(stderr, "usrsctp-peer: ");
	va_start(rest, format);
	vfprintf(stderr, format, rest);
	va_end(rest);
	fprintf(stderr, "; the options are in interop/README.md\n");
	exit(2);
}

static uint64_t number(const char *text, uint64_t low, uint64_t high)
{
	char *end;
	errno = 0;
	unsigned long long value = strtoull(text, &end, 10);
	if (errno != 0 || end == text || *end != '\0' || *text == '-')
		wrong("'%s' is not a number", text);
	if (value < low || value > high)
		wrong("%llu is not between %llu and %llu", value, (unsigned long long)low, (unsigned long long)high);
	return value;
}

static struct addresses addresses(char *text)
{
	struct addresses found = { .count = 0 };
	char *save;
	for (char *part = strtok_r(text, ",", &save); part; part = strtok_r(NULL, ",", &save)) {
		if (found.count == MOST_ADDRESSES)
			wrong("more than %d addresses", MOST_ADDRESSES);
		union address *one = &found.list[found.count++];
		memset(one, 0, sizeof *one);
		if (inet_pton(AF_INET, part, &one->v4.sin_addr) == 1)
			one->v4.sin_family = AF_INET;
		else if (inet_pton(AF_INET6, part, &one->v6.sin6_addr) == 1)
			one->v6.sin6_family = AF_INET6;
		else
			wrong("'%s' is not an address", part);
	}
	if (found.count == 0)
		wrong("an empty list of addresses");
	return found;
}

static void sizes(struct options *options, char *text)
{
	char *save, *dash = strchr(text, '-');
	options->size_count = 0;
	options->size_range = dash != NULL;
	for (char *part = strtok_r(text, dash ? "-" : ",", &save); part; part = strtok_r(NULL, dash ? "-" : ",", &save)) {
		if (options->size_count == MOST_SIZES)
			wrong("more than %d sizes", MOST_SIZES);
		options->sizes[options->size_count++] = number(part, 1, MOST_MESSAGE);
	}
	if (options->size_count == 0 || (dash && options->size_count != 2))
		wrong("sizes are A, A-B or A,B,C");
	if (dash && options->sizes[0] > options->sizes[1])
		wrong("the smaller size comes first");
}

static int choice(const char *text, const char *const *names)
{
	for (int i = 0; names[i]; i++)
		if (strcmp(text, names[i]) == 0)
			return i;
	wrong("'%s' is not known here", text);
}

static void offered(struct options *o, char *text)
{
	static const char *const names[] = { "partial", "authentication", "addresses", "reconfiguration", "interleaving", "ecn", "none", NULL };
	char *save;
	o->offers = true;
	for (char *part = strtok_r(text, ",", &save); part; part = strtok_r(NULL, ",", &save)) {
		int which = choice(part, names);
		if (names[which + 1])
			o->offered |= 1u << which;
	}
}

static void reliability(struct options *o, char *text)
{
	static const char *const rules[] = { "full", "timed", "retransmissions", NULL };
	char *value = strchr(text, ':');
	if (value)
		*value++ = '\0';
	o->reliability = choice(text, rules);
	if ((value != NULL) != (o->reliability != FULL))
		wrong("use full, timed:MS or retransmissions:N");
	o->reliability_value = value ? number(value, 0, UINT32_MAX) : 0;
}

static void types(struct options *o, char *text)
{
	char *save;
	for (char *part = strtok_r(text, ",", &save); part; part = strtok_r(NULL, ",", &save)) {
		if (o->authenticate_count == MOST_TYPES)
			wrong("more than %d chunk types", MOST_TYPES);
		o->authenticate[o->authenticate_count++] = number(part, 0, 255);
	}
}

static void keys(struct options *o, char *text)
{
	char *save;
	for (char *part = strtok_r(text, ",", &save); part; part = strtok_r(NULL, ",", &save)) {
		char *secret = strchr(part, ':');
		if (!secret || o->key_count == MOST_KEYS)
			wrong("keys are ID:SECRET, at most %d", MOST_KEYS);
		*secret++ = '\0';
		o->keys[o->key_count].number = number(part, 0, 65535);
		o->keys[o->key_count++].secret = secret;
	}
}

static void planned(struct options *o, char *text)
{
	static const char *const names[] = { "add-address", "delete-address", "set-primary", "reset-out", "reset-in",
		"reset-association", "add-streams", "use-key", NULL };
	char *after = strrchr(text, '@');
	if (!after || o->planned_count == MOST_OPERATIONS)
		wrong("'%s' is not OPERATION@BYTES", text);
	*after++ = '\0';
	char *value = strchr(text, '=');
	if (value)
		*value++ = '\0';
	o->planned[o->planned_count++] = (struct planned){
		.operation = choice(text, names), .name = text, .value = value ? value : "", .after = number(after, 0, UINT64_MAX),
	};
}

enum { O_EXTENSIONS = 200, O_RELIABILITY, O_GAPS, O_AUTHENTICATE, O_KEYS, O_HMAC, O_SCHEDULER, O_DO };

enum { O_LOCAL = 256, O_LOCAL_PORT, O_TRANSPORT, O_ENCAPS, O_REMOTE_ENCAPS, O_MODE, O_BYTES, O_SIZES, O_STREAMS,
	O_UNORDERED, O_SEED, O_EXPECT, O_END, O_PROGRESS, O_RTO_INITIAL, O_RTO_MIN, O_RTO_MAX, O_PATH_MAX, O_ASSOC_MAX,
	O_HEARTBEAT, O_NODELAY, O_LINGER, O_TIME_LIMIT, O_RATE, O_HOLD };

static const struct option NAMES[] = {
	{ "local", 1, 0, O_LOCAL }, { "local-port", 1, 0, O_LOCAL_PORT }, { "transport", 1, 0, O_TRANSPORT },
	{ "encaps-port", 1, 0, O_ENCAPS }, { "remote-encaps-port", 1, 0, O_REMOTE_ENCAPS }, { "mode", 1, 0, O_MODE },
	{ "bytes", 1, 0, O_BYTES }, { "sizes", 1, 0, O_SIZES }, { "streams", 1, 0, O_STREAMS },
	{ "unordered", 1, 0, O_UNORDERED }, { "seed", 1, 0, O_SEED }, { "expect", 1, 0, O_EXPECT }, { "end", 1, 0, O_END },
	{ "progress", 1, 0, O_PROGRESS }, { "rto-initial", 1, 0, O_RTO_INITIAL }, { "rto-min", 1, 0, O_RTO_MIN },
	{ "rto-max", 1, 0, O_RTO_MAX }, { "path-max-retrans", 1, 0, O_PATH_MAX },
	{ "assoc-max-retrans", 1, 0, O_ASSOC_MAX }, { "heartbeat", 1, 0, O_HEARTBEAT }, { "rate", 1, 0, O_RATE }, { "hold", 1, 0, O_HOLD }, { "nodelay", 0, 0, O_NODELAY },
	{ "linger", 1, 0, O_LINGER }, { "time-limit", 1, 0, O_TIME_LIMIT },
	{ "extensions", 1, 0, O_EXTENSIONS }, { "reliability", 1, 0, O_RELIABILITY }, { "gaps", 0, 0, O_GAPS },
	{ "authenticate", 1, 0, O_AUTHENTICATE }, { "keys", 1, 0, O_KEYS }, { "hmac", 1, 0, O_HMAC },
	{ "scheduler", 1, 0, O_SCHEDULER }, { "do", 1, 0, O_DO }, { 0, 0, 0, 0 },
};

static void apply(struct options *o, int name, char *value)
{
	static const char *const transports[] = { "ip", "udp", NULL };
	static const char *const modes[] = { "echo", "sink", "source", NULL };
	static const char *const ends[] = { "shutdown", "abort", "wait", NULL };
	static const char *const hmacs[] = { "sha256", "sha1", NULL };
	static const char *const schedulers[] = { "fcfs", "rr", NULL };
	const uint64_t hour = 3600 * 1000;
	switch (name) {
	case O_LOCAL: o->local = addresses(value); break;
	case O_LOCAL_PORT: o->local_port = number(value, 1, 65535); break;
	case O_TRANSPORT: o->udp = choice(value, transports); break;
	case O_ENCAPS: o->encaps_port = number(value, 1, 65535); break;
	case O_REMOTE_ENCAPS: o->remote_encaps_port = number(value, 1, 65535); break;
	case O_MODE: o->mode = choice(value, modes); break;
	case O_BYTES: o->bytes = number(value, 0, UINT64_MAX); break;
	case O_SIZES: sizes(o, value); break;
	case O_STREAMS: o->streams = number(value, 1, 65535); break;
	case O_UNORDERED: o->unordered = number(value, 0, UINT64_MAX); break;
	case O_RATE: o->rate = number(value, 0, UINT64_MAX); break;
	case O_HOLD: o->hold = number(value, 0, UINT64_MAX); break;
	case O_SEED: o->seed = number(value, 0, UINT64_MAX); break;
	case O_EXPECT: o->expect = number(value, 0, UINT64_MAX); break;
	case O_END: o->end = choice(value, ends); break;
	case O_PROGRESS: o->progress = number(value, 0, UINT64_MAX); break;
	case O_RTO_INITIAL: o->rto_initial = number(value, 1, hour); break;
	case O_RTO_MIN: o->rto_min = number(value, 1, hour); break;
	case O_RTO_MAX: o->rto_max = number(value, 1, hour); break;
	case O_PATH_MAX: o->path_max_retrans = number(value, 1, 255); break;
	case O_ASSOC_MAX: o->assoc_max_retrans = number(value, 1, 255); break;
	case O_HEARTBEAT: o->heartbeat = number(value, 1, hour); break;
	case O_NODELAY: o->nodelay = true; break;
	case O_LINGER: o->linger = number(value, 0, 3600); break;
	case O_TIME_LIMIT: o->time_limit = number(value, 1, 86400); break;
	case O_EXTENSIONS: offered(o, value); break;
	case O_RELIABILITY: reliability(o, value); break;
	case O_GAPS: o->gaps = true; break;
	case O_AUTHENTICATE: types(o, value); break;
	case O_KEYS: keys(o, value); break;
	case O_HMAC: o->sha1 = choice(value, hmacs); break;
	case O_SCHEDULER: o->round_robin = choice(value, schedulers); break;
	case O_DO: planned(o, value); break;
	default: exit(2); /* getopt has printed the reason */
	}
}

struct options parse_options(int argc, char **argv)
{
	struct options o = {
		.udp = true, .encaps_port = 9899, .remote_encaps_port = 9899, .streams = 1, .mode = ECHO, .end = END_WAIT,
		.seed = 1, .sizes = { 1024 }, .size_count = 1, .time_limit = 60,
	};
	int name;
	while ((name = getopt_long(argc, argv, "", NAMES, NULL)) != -1)
		apply(&o, name, optarg);
	char **words = argv + optind;
	int count = argc - optind;
	if (count == 2 && strcmp(words[0], "listen") == 0) {
		o.listen = true;
	} else if (count == 3 && strcmp(words[0], "connect") == 0) {
		o.remote = addresses(words[1]);
	} else {
		wrong("use 'listen PORT' or 'connect ADDR[,ADDR...] PORT'");
	}
	o.port = number(words[count - 1], 1, 65535);
	return o;
}

size_t pack_addresses(const struct addresses *from, uint16_t port, uint8_t *into)
{
	size_t at = 0;
	for (size_t i = 0; i < from->count; i++) {
		union address one = from->list[i];
		size_t size = one.any.sa_family == AF_INET ? sizeof one.v4 : sizeof one.v6;
		if (one.any.sa_family == AF_INET)
			one.v4.sin_port = htons(port);
		else
			one.v6.sin6_port = htons(port);
		memcpy(into + at, &one, size);
		at += size;
	}
	return at;
}
