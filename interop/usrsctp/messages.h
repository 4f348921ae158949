/* Messages with content that the receiver can compute ("Messages" in interop/README.md). */
#ifndef MESSAGES_H
#define MESSAGES_H

#include "options.h"

/* Position of a sender in its sequence of messages. */
struct source {
	const struct options *options;
	uint16_t streams;
	uint64_t number, left;
};

struct message {
	uint16_t stream;
	uint32_t ppid;
	bool unordered;
	size_t length;
	uint8_t *data; /* allocated; freed by the function that takes the message */
};

struct source source_new(const struct options *options, uint16_t streams_out);

/* Returns the next message; false after the last one. */
bool source_next(struct source *source, struct message *into);

/* Messages received on all streams. */
struct check;

struct check *check_new(void);
void check_message(struct check *check, const struct message *message);

/* Checks after a SHUTDOWN that no index is missing. */
void check_complete(struct check *check);

/* Counts and prints an error. */
void check_fail(struct check *check, const char *format, ...) __attribute__((format(printf, 2, 3)));
unsigned long check_errors(const struct check *check);

#endif
