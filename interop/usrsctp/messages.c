#include "messages.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"

enum { MOST_LINES = 20, STREAMS = 65536 };

static uint64_t splitmix64(uint64_t seed, uint64_t n)
{
	uint64_t z = seed + (n + 1) * UINT64_C(0x9E3779B97F4A7C15);
	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	return z ^ (z >> 31);
}

struct source source_new(const struct options *options, uint16_t streams_out)
{
	uint16_t streams = streams_out < options->streams ? streams_out : options->streams;
	return (struct source){ .options = options, .streams = streams, .left = options->bytes };
}

bool source_next(struct source *source, struct message *into)
{
	const struct options *o = source->options;
	uint64_t n = source->number, size;
	if (source->left == 0)
		return false;
	if (o->size_range)
		size = o->sizes[0] + splitmix64(o->seed, n) % (o->sizes[1] - o->sizes[0] + 1);
	else
		size = o->sizes[n % o->size_count];
	if (size > source->left)
		size = source->left;
	into->stream = n % source->streams;
	into->ppid = n / source->streams;
	into->unordered = o->unordered > 0 && n % o->unordered == o->unordered - 1;
	into->length = size;
	into->data = malloc(size);
	uint8_t start = into->ppid + 29 * into->stream;
	for (size_t p = 0; p < size; p++)
		into->data[p] = start + p;
	if (size >= 8) {
		uint32_t header[2] = { htonl(into->ppid), htonl(size) };
		memcpy(into->data, header, sizeof header);
	}
	source->number++;
	source->left -= size;
	return true;
}

/* Set of indexes: a bit map that grows with the highest index. */
struct stream {
	uint8_t *seen;
	size_t bytes;
	int64_t last_ordered, highest;
};

struct check {
	struct stream streams[STREAMS];
	unsigned long errors;
};

/* Far above the number of any test; bounds the bit map for a wrong PPID, which would take 512 MiB. */
enum { MOST_INDEX = 1 << 28 };

struct check *check_new(void)
{
	struct check *check = calloc(1, sizeof *check);
	for (size_t i = 0; i < STREAMS; i++)
		check->streams[i].last_ordered = check->streams[i].highest = -1;
	return check;
}

void check_fail(struct check *check, const char *format, ...)
{
	char text[256];
	va_list rest;
	va_start(rest, format);
	vsnprintf(text, sizeof text, format, rest);
	va_end(rest);
	if (++check->errors <= MOST_LINES)
		emit("error", "\"message\":\"%s\"", text);
}

unsigned long check_errors(const struct check *check)
{
	return check->errors;
}

static bool content_is_right(const struct message *m)
{
	uint8_t start = m->ppid + 29 * m->stream;
	for (size_t p = m->length >= 8 ? 8 : 0; p < m->length; p++)
		if (m->data[p] != (uint8_t)(start + p))
			return false;
	return true;
}

static bool see(struct stream *stream, uint32_t index)
{
	size_t byte = index / 8;
	uint8_t bit = 1 << index % 8;
	if (byte >= stream->bytes) {
		size_t larger = (byte + 1) * 2;
		stream->seen = realloc(stream->seen, larger);
		memset(stream->seen + stream->bytes, 0, larger - stream->bytes);
		stream->bytes = larger;
	}
	bool new = !(stream->seen[byte] & bit);
	stream->seen[byte] |= bit;
	if (index > stream->highest)
		stream->highest = index;
	return new;
}

void check_message(struct check *check, const struct message *m)
{
	char where[64];
	snprintf(where, sizeof where, "stream %u, PPID %u, %zu bytes", m->stream, m->ppid, m->length);
	if (m->length >= 8) {
		uint32_t header[2];
		memcpy(header, m->data, sizeof header);
		if (ntohl(header[0]) != m->ppid)
			check_fail(check, "%s: the index in the header is %u", where, ntohl(header[0]));
		if (ntohl(header[1]) != m->length)
			check_fail(check, "%s: the length in the header is %u bytes", where, ntohl(header[1]));
	}
	if (!content_is_right(m))
		check_fail(check, "%s: wrong content", where);
	if (m->ppid >= MOST_INDEX) {
		check_fail(check, "%s: no sender gets that far", where);
		return;
	}
	struct stream *stream = &check->streams[m->stream];
	if (!see(stream, m->ppid))
		check_fail(check, "%s: delivered twice", where);
	if (!m->unordered) {
		if (m->ppid <= stream->last_ordered)
			check_fail(check, "%s: out of order after index %lld", where, (long long)stream->last_ordered);
		else
			stream->last_ordered = m->ppid;
	}
}

void check_complete(struct check *check)
{
	for (size_t i = 0; i < STREAMS; i++) {
		const struct stream *stream = &check->streams[i];
		for (int64_t index = 0; index <= stream->highest; index++) {
			if (!(stream->seen[index / 8] & 1 << index % 8)) {
				check_fail(check, "stream %zu: index %lld never arrived, %lld did", i, (long long)index,
					   (long long)stream->highest);
				break;
			}
		}
	}
}
