#include "extensions.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "assoc.h"
#include "output.h"

enum { EVERY_REQUEST = 7, RETRY_MS = 20, INTERLEAVING_SUPPORTED = 0x1206, LEVEL_ALL_STREAMS = 2 };

static void set(struct socket *socket, int name, const void *value, socklen_t size, const char *what)
{
	if (usrsctp_setsockopt(socket, IPPROTO_SCTP, name, value, size) != 0)
		environment(what, "this release of usrsctp does not take the option");
}

static void set_value(struct socket *socket, int name, uint32_t value, const char *what)
{
	struct sctp_assoc_value pair = { .assoc_id = SCTP_FUTURE_ASSOC, .assoc_value = value };
	set(socket, name, &pair, sizeof pair, what);
}

static void offer(struct socket *socket, unsigned int offered)
{
	/* Dynamic addresses need authentication at any moment. */
	set_value(socket, SCTP_ASCONF_SUPPORTED, 0, "dynamic addresses");
	set_value(socket, SCTP_AUTH_SUPPORTED, (offered & X_AUTHENTICATION) != 0, "authentication");
	set_value(socket, SCTP_ASCONF_SUPPORTED, (offered & X_ADDRESSES) != 0, "dynamic addresses");
	set_value(socket, SCTP_PR_SUPPORTED, (offered & X_PARTIAL) != 0, "partial reliability");
	set_value(socket, SCTP_ECN_SUPPORTED, (offered & X_ECN) != 0, "ECN");
	set_value(socket, SCTP_RECONFIG_SUPPORTED, (offered & X_RECONFIGURATION) != 0, "re-configuration");
	if (offered & X_RECONFIGURATION)
		set_value(socket, SCTP_ENABLE_STREAM_RESET, EVERY_REQUEST, "requests to re-configure");
	if (offered & X_INTERLEAVING) {
		int level = LEVEL_ALL_STREAMS;
		set(socket, SCTP_FRAGMENT_INTERLEAVE, &level, sizeof level, "interleaved delivery");
		set_value(socket, INTERLEAVING_SUPPORTED, 1, "interleaving");
	}
}

static void use_key(struct socket *socket, uint16_t number, const char *what)
{
	struct sctp_authkeyid id = { .scact_assoc_id = 0, .scact_keynumber = number };
	set(socket, SCTP_AUTH_ACTIVE_KEY, &id, sizeof id, what);
}

static void authenticate(struct socket *socket, const struct options *o)
{
	struct { uint32_t count; uint16_t idents[2]; } hmac = { 2, { SCTP_AUTH_HMAC_ID_SHA256, SCTP_AUTH_HMAC_ID_SHA1 } };
	if (o->sha1)
		hmac.count = 1, hmac.idents[0] = SCTP_AUTH_HMAC_ID_SHA1;
	set(socket, SCTP_HMAC_IDENT, &hmac, sizeof hmac.count + hmac.count * sizeof *hmac.idents, "the algorithms");
	for (size_t i = 0; i < o->authenticate_count; i++) {
		struct sctp_authchunk chunk = { .sauth_chunk = o->authenticate[i] };
		set(socket, SCTP_AUTH_CHUNK, &chunk, sizeof chunk, "a chunk type to authenticate");
	}
	for (size_t i = 0; i < o->key_count; i++) {
		size_t length = strlen(o->keys[i].secret), size = sizeof(struct sctp_authkey) + length;
		struct sctp_authkey *key = calloc(1, size);
		key->sca_keynumber = o->keys[i].number;
		key->sca_keylength = length;
		memcpy(key->sca_key, o->keys[i].secret, length);
		set(socket, SCTP_AUTH_KEY, key, size, "a key");
		free(key);
	}
	if (o->key_count > 0)
		use_key(socket, o->keys[0].number, "the active key");
}

void extensions_apply(struct socket *socket, const struct options *o)
{
	static const uint16_t events[] = { SCTP_STREAM_RESET_EVENT, SCTP_ASSOC_RESET_EVENT, SCTP_STREAM_CHANGE_EVENT };
	if (o->offers)
		offer(socket, o->offered);
	if (o->authenticate_count > 0 || o->key_count > 0)
		authenticate(socket, o);
	if (o->round_robin)
		set_value(socket, SCTP_PLUGGABLE_SS, SCTP_SS_ROUND_ROBIN, "the scheduler");
	for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
		struct sctp_event event = { .se_assoc_id = SCTP_FUTURE_ASSOC, .se_type = events[i], .se_on = 1 };
		set(socket, SCTP_EVENT, &event, sizeof event, "notifications of extensions");
	}
}

static int change_address(struct socket *socket, const char *text, uint16_t port, int how)
{
	union address one = { 0 };
	if (inet_pton(AF_INET, text, &one.v4.sin_addr) == 1)
		one.v4.sin_family = AF_INET, one.v4.sin_port = htons(port);
	else if (inet_pton(AF_INET6, text, &one.v6.sin6_addr) == 1)
		one.v6.sin6_family = AF_INET6, one.v6.sin6_port = htons(port);
	if (how != 0)
		return usrsctp_bindx(socket, &one.any, 1, how);
	struct sctp_setpeerprim primary = { 0 };
	memcpy(&primary.sspp_addr, &one, sizeof one);
	return usrsctp_setsockopt(socket, IPPROTO_SCTP, SCTP_SET_PEER_PRIMARY_ADDR, &primary, sizeof primary);
}

static int perform(struct socket *socket, const struct planned *p)
{
	struct sctp_reset_streams reset = { 0 };
	struct sctp_add_streams add = { 0 };
	sctp_assoc_t all = 0;
	switch (p->operation) {
	case DO_ADD_ADDRESS: return change_address(socket, p->value, bound_port(socket), SCTP_BINDX_ADD_ADDR);
	case DO_DELETE_ADDRESS: return change_address(socket, p->value, bound_port(socket), SCTP_BINDX_REM_ADDR);
	case DO_SET_PRIMARY: return change_address(socket, p->value, bound_port(socket), 0);
	case DO_RESET_OUT:
	case DO_RESET_IN:
		reset.srs_flags = p->operation == DO_RESET_OUT ? SCTP_STREAM_RESET_OUTGOING : SCTP_STREAM_RESET_INCOMING;
		return usrsctp_setsockopt(socket, IPPROTO_SCTP, SCTP_RESET_STREAMS, &reset, sizeof reset);
	case DO_RESET_ASSOCIATION:
		return usrsctp_setsockopt(socket, IPPROTO_SCTP, SCTP_RESET_ASSOC, &all, sizeof all);
	case DO_ADD_STREAMS:
		if (sscanf(p->value, "%hu/%hu", &add.sas_outstrms, &add.sas_instrms) != 2)
			return errno = EINVAL, -1;
		return usrsctp_setsockopt(socket, IPPROTO_SCTP, SCTP_ADD_STREAMS, &add, sizeof add);
	case DO_USE_KEY:
		use_key(socket, atoi(p->value), "another key");
		return 0;
	}
	return errno = EINVAL, -1;
}

bool extensions_do(struct socket *socket, struct options *o, uint64_t bytes)
{
	static uint64_t retry_at;
	while (o->done < o->planned_count && o->planned[o->done].after <= bytes) {
		const struct planned *p = &o->planned[o->done];
		if (elapsed_ms() < retry_at)
			return true;
		int result = perform(socket, p);
		if (result != 0 && (errno == EBUSY || errno == EALREADY || errno == EAGAIN || errno == EINPROGRESS)) {
			retry_at = elapsed_ms() + RETRY_MS;
			return true;
		}
		emit("did", "\"operation\":\"%s%s%s\",\"result\":\"%s\"", p->name, *p->value ? "=" : "", p->value,
		     result == 0 ? "asked" : strerror(errno));
		o->done++;
	}
	return false;
}

static const char *truth(bool value)
{
	return value ? "true" : "false";
}

void extensions_notification(const union sctp_notification *n)
{
	if (n->sn_header.sn_type == SCTP_STREAM_RESET_EVENT) {
		uint16_t flags = n->sn_strreset_event.strreset_flags;
		bool success = !(flags & (SCTP_STREAM_RESET_DENIED | SCTP_STREAM_RESET_FAILED));
		if (flags & SCTP_STREAM_RESET_INCOMING_SSN)
			emit("streams-reset", "\"direction\":\"incoming\",\"success\":%s", truth(success));
		if (flags & SCTP_STREAM_RESET_OUTGOING_SSN)
			emit("streams-reset", "\"direction\":\"outgoing\",\"success\":%s", truth(success));
	} else if (n->sn_header.sn_type == SCTP_ASSOC_RESET_EVENT) {
		uint16_t flags = n->sn_assocreset_event.assocreset_flags;
		emit("association-reset", "\"success\":%s", truth(!(flags & (SCTP_ASSOC_RESET_DENIED | SCTP_ASSOC_RESET_FAILED))));
	} else if (n->sn_header.sn_type == SCTP_STREAM_CHANGE_EVENT) {
		const struct sctp_stream_change_event *change = &n->sn_strchange_event;
		emit("streams-added", "\"streams_in\":%u,\"streams_out\":%u,\"success\":%s", change->strchange_instrms,
		     change->strchange_outstrms, truth(!(change->strchange_flags & (SCTP_STREAM_CHANGE_DENIED | SCTP_STREAM_CHANGE_FAILED))));
	}
}
