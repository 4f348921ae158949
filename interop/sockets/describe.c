/* Texts for results. Values that vary from run to run become symbols. */
#include "probe.h"

#include <stdarg.h>

enum { TEXTS = 64, TEXT = 4096, SYMBOLS = 64 };

char *text(const char *format, ...)
{
	static char buffers[TEXTS][TEXT];
	static int next;
	char *buffer = buffers[next++ % TEXTS];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(buffer, TEXT, format, arguments);
	va_end(arguments);
	return buffer;
}

const char *error_name(int error)
{
	const char *name = strerrorname_np(error);
	return name == NULL ? text("error %d", error) : name;
}

const char *some(uint64_t value)
{
	return value == 0 ? "0" : "some";
}

/* The number of a value among those that were seen, from 1. */
static int symbol(int64_t *seen, int *number, int64_t value)
{
	for (int i = 0; i < *number; i++)
		if (seen[i] == value)
			return i + 1;
	if (*number < SYMBOLS)
		seen[(*number)++] = value;
	return *number;
}

const char *port_name(int port)
{
	static int64_t seen[SYMBOLS];
	static int number;
	return port < 1024 ? text("%d", port) : text("<port%d>", symbol(seen, &number, port));
}

const char *association_name(int id)
{
	static int64_t seen[SYMBOLS];
	static int number;
	return id <= SCTP_ALL_ASSOC ? text("%d", id) : text("<assoc%d>", symbol(seen, &number, id));
}

const char *tsn_name(uint32_t tsn)
{
	static uint32_t first[SYMBOLS];
	static int number;
	if (tsn == 0)
		return "0";
	for (int i = 0; i < number; i++)
		if (tsn - first[i] + 1000 < 2000)
			return text("<tsn%d>%+d", i + 1, (int)(tsn - first[i]));
	if (number < SYMBOLS)
		first[number++] = tsn;
	return text("<tsn%d>", number);
}

const char *address_name(const void *address, socklen_t length)
{
	const struct sockaddr_in *inet = address;
	const struct sockaddr_in6 *inet6 = address;
	char name[INET6_ADDRSTRLEN];
	if (length < sizeof(sa_family_t))
		return text("%u bytes", length);
	if (inet->sin_family == AF_INET && length >= sizeof(*inet)) {
		inet_ntop(AF_INET, &inet->sin_addr, name, sizeof(name));
		return text("%s:%s", name, port_name(ntohs(inet->sin_port)));
	}
	if (inet->sin_family == AF_INET6 && length >= sizeof(*inet6)) {
		inet_ntop(AF_INET6, &inet6->sin6_addr, name, sizeof(name));
		const char *scope = inet6->sin6_scope_id == 0 ? "" : "%link";
		return text("[%s%s]:%s", name, scope, port_name(ntohs(inet6->sin6_port)));
	}
	return text("family %d, %u bytes", inet->sin_family, length);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A packed list, sorted. */
const char *addresses_text(const void *addresses, int number)
{
	enum { MOST = 16 };
	const char *names[MOST], *at = addresses, *all = "";
	if (number < 0 || number > MOST)
		return text("%d addresses", number);
	for (int i = 0; i < number; i++) {
		int family = ((const struct sockaddr *)at)->sa_family;
		socklen_t size = family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
		names[i] = address_name(at, size);
		at += size;
	}
	qsort(names, (size_t)number, sizeof(names[0]), compare_names);
	for (int i = 0; i < number; i++)
		all = text("%s%s%s", all, i > 0 ? " " : "", names[i]);
	return text("{%s}", all);
}

struct bit {
	int value;
	const char *name;
};

static const char *bits(int value, const struct bit *list)
{
	const char *all = "";
	for (; list->name != NULL; list++) {
		if ((value & list->value) != list->value)
			continue;
		all = text("%s%s%s", all, *all ? "|" : "", list->name);
		value &= ~list->value;
	}
	if (value != 0)
		all = text("%s%s0x%x", all, *all ? "|" : "", (unsigned)value);
	return *all ? all : "0";
}

const char *flags_text(int flags)
{
	static const struct bit list[] = {
		{ MSG_EOR, "EOR" }, { MSG_NOTIFICATION, "NOTIFICATION" }, { MSG_TRUNC, "TRUNC" }, { MSG_CTRUNC, "CTRUNC" },
		{ MSG_OOB, "OOB" }, { MSG_PEEK, "PEEK" }, { MSG_DONTWAIT, "DONTWAIT" }, { MSG_ERRQUEUE, "ERRQUEUE" },
		{ MSG_CMSG_CLOEXEC, "CMSG_CLOEXEC" }, { 0, NULL },
	};
	return bits(flags, list);
}

const char *poll_text(int events)
{
	static const struct bit list[] = {
		{ POLLIN, "IN" }, { POLLPRI, "PRI" }, { POLLOUT, "OUT" }, { POLLERR, "ERR" }, { POLLHUP, "HUP" },
		{ POLLNVAL, "NVAL" }, { POLLRDHUP, "RDHUP" }, { POLLRDNORM, "RDNORM" }, { POLLWRNORM, "WRNORM" }, { 0, NULL },
	};
	return bits(events, list);
}

static const char *info_flags(int flags)
{
	static const struct bit list[] = {
		{ SCTP_UNORDERED, "UNORDERED" }, { SCTP_ADDR_OVER, "ADDR_OVER" }, { SCTP_ABORT, "ABORT" },
		{ SCTP_EOF, "EOF" }, { SCTP_SACK_IMMEDIATELY, "SACK_IMMEDIATELY" }, { SCTP_SENDALL, "SENDALL" },
		{ SCTP_NOTIFICATION, "NOTIFICATION" }, { SCTP_PR_SCTP_PRIO, "PR_PRIO" }, { SCTP_PR_SCTP_RTX, "PR_RTX" },
		{ SCTP_PR_SCTP_TTL, "PR_TTL" }, { 0, NULL },
	};
	return bits(flags, list);
}

/* Returns the bytes if they are few, otherwise their number and whether they have the content of large messages. */
const char *bytes_text(const void *bytes, size_t length)
{
	const unsigned char *at = bytes;
	bool is_text = length <= 60, is_pattern = length > 0;
	for (size_t i = 0; i < length; i++) {
		is_text = is_text && at[i] >= ' ' && at[i] < 127;
		is_pattern = is_pattern && at[i] == (unsigned char)(at[0] + i % 251);
	}
	if (is_text)
		return text("\"%.*s\"", (int)length, (const char *)bytes);
	return text("%zu bytes%s", length, is_pattern ? "" : " (mixed)");
}

static const char *name_of(unsigned int value, const char *const *names, unsigned int number)
{
	return value < number ? names[value] : text("%u", value);
}
#define NAME(value, names) name_of((unsigned int)(value), names, sizeof(names) / sizeof(names[0]))

static const char *association_change(const struct sctp_assoc_change *change, size_t length)
{
	static const char *const states[] = { "COMM_UP", "COMM_LOST", "RESTART", "SHUTDOWN_COMP", "CANT_STR_ASSOC" };
	size_t rest = length - sizeof(*change);
	const char *info = rest == 0 ? "" : text(" info=%zu bytes, first %d", rest, change->sac_info[0]);
	return text("ASSOC_CHANGE{%s error=%u out=%u in=%u id=%s%s}", NAME(change->sac_state, states), ntohs(change->sac_error),
		    change->sac_outbound_streams, change->sac_inbound_streams, association_name(change->sac_assoc_id), info);
}

static const char *address_change(const struct sctp_paddr_change *change)
{
	static const char *const states[] = {
		"AVAILABLE", "UNREACHABLE", "REMOVED", "ADDED", "MADE_PRIM", "CONFIRMED", "POTENTIALLY_FAILED",
	};
	return text("PEER_ADDR_CHANGE{%s %s error=%d id=%s}", address_name(&change->spc_aaddr, sizeof(change->spc_aaddr)),
		    NAME(change->spc_state, states), change->spc_error, association_name(change->spc_assoc_id));
}

static const char *stream_reset(const struct sctp_stream_reset_event *event, size_t length)
{
	static const struct bit list[] = { { 1, "INCOMING" }, { 2, "OUTGOING" }, { 4, "DENIED" }, { 8, "FAILED" }, { 0, NULL } };
	const char *streams = "";
	for (size_t i = 0; i < (length - sizeof(*event)) / 2; i++)
		streams = text("%s %u", streams, event->strreset_stream_list[i]);
	return text("STREAM_RESET{%s id=%s streams:%s}", bits(event->strreset_flags, list),
		    association_name(event->strreset_assoc_id), streams);
}

static const char *reconfiguration_flags(int flags)
{
	static const struct bit list[] = { { 4, "DENIED" }, { 8, "FAILED" }, { 0, NULL } };
	return bits(flags, list);
}

const char *notification_text(const void *bytes, size_t length)
{
	const union sctp_notification *n = bytes;
	if (length < sizeof(n->sn_header) || n->sn_header.sn_length != length)
		return text("%zu bytes of a notification", length);
	switch (n->sn_header.sn_type) {
	case SCTP_ASSOC_CHANGE:
		return association_change(&n->sn_assoc_change, length);
	case SCTP_PEER_ADDR_CHANGE:
		return address_change(&n->sn_paddr_change);
	case SCTP_SEND_FAILED:
		return text("SEND_FAILED{flags=%u error=%u sid=%u ppid=%u flags=%s context=%u id=%s id=%s %s}", n->sn_send_failed.ssf_flags,
			    n->sn_send_failed.ssf_error, n->sn_send_failed.ssf_info.sinfo_stream,
			    ntohl(n->sn_send_failed.ssf_info.sinfo_ppid), info_flags(n->sn_send_failed.ssf_info.sinfo_flags),
			    n->sn_send_failed.ssf_info.sinfo_context, association_name(n->sn_send_failed.ssf_info.sinfo_assoc_id),
			    association_name(n->sn_send_failed.ssf_assoc_id),
			    bytes_text(n->sn_send_failed.ssf_data, length - sizeof(struct sctp_send_failed)));
	case SCTP_SEND_FAILED_EVENT:
		return text("SEND_FAILED_EVENT{flags=%u error=%u sid=%u ppid=%u flags=%s context=%u id=%s id=%s %s}",
			    n->sn_send_failed_event.ssf_flags, n->sn_send_failed_event.ssf_error,
			    n->sn_send_failed_event.ssfe_info.snd_sid, ntohl(n->sn_send_failed_event.ssfe_info.snd_ppid),
			    info_flags(n->sn_send_failed_event.ssfe_info.snd_flags), n->sn_send_failed_event.ssfe_info.snd_context,
			    association_name(n->sn_send_failed_event.ssfe_info.snd_assoc_id),
			    association_name(n->sn_send_failed_event.ssf_assoc_id),
			    bytes_text(n->sn_send_failed_event.ssf_data, length - sizeof(struct sctp_send_failed_event)));
	case SCTP_REMOTE_ERROR:
		return text("REMOTE_ERROR{cause=%u id=%s %zu bytes}", ntohs(n->sn_remote_error.sre_error),
			    association_name(n->sn_remote_error.sre_assoc_id), length - sizeof(struct sctp_remote_error));
	case SCTP_SHUTDOWN_EVENT:
		return text("SHUTDOWN_EVENT{id=%s}", association_name(n->sn_shutdown_event.sse_assoc_id));
	case SCTP_PARTIAL_DELIVERY_EVENT:
		return text("PARTIAL_DELIVERY{indication=%u stream=%u seq=%u id=%s}", n->sn_pdapi_event.pdapi_indication,
			    n->sn_pdapi_event.pdapi_stream, n->sn_pdapi_event.pdapi_seq,
			    association_name(n->sn_pdapi_event.pdapi_assoc_id));
	case SCTP_ADAPTATION_INDICATION:
		return text("ADAPTATION{indication=%u id=%s}", n->sn_adaptation_event.sai_adaptation_ind,
			    association_name(n->sn_adaptation_event.sai_assoc_id));
	case SCTP_AUTHENTICATION_EVENT: {
		static const char *const kinds[] = { "NEW_KEY", "FREE_KEY", "NO_AUTH" };
		return text("AUTHENTICATION{%s key=%u alt=%u id=%s}", NAME(n->sn_authkey_event.auth_indication, kinds),
			    n->sn_authkey_event.auth_keynumber, n->sn_authkey_event.auth_altkeynumber,
			    association_name(n->sn_authkey_event.auth_assoc_id));
	}
	case SCTP_SENDER_DRY_EVENT:
		return text("SENDER_DRY{id=%s}", association_name(n->sn_sender_dry_event.sender_dry_assoc_id));
	case SCTP_STREAM_RESET_EVENT:
		return stream_reset(&n->sn_strreset_event, length);
	case SCTP_ASSOC_RESET_EVENT:
		return text("ASSOC_RESET{%s id=%s local=%s remote=%s}", reconfiguration_flags(n->sn_assocreset_event.assocreset_flags),
			    association_name(n->sn_assocreset_event.assocreset_assoc_id),
			    some(n->sn_assocreset_event.assocreset_local_tsn), some(n->sn_assocreset_event.assocreset_remote_tsn));
	case SCTP_STREAM_CHANGE_EVENT:
		return text("STREAM_CHANGE{%s id=%s in=%u out=%u}", reconfiguration_flags(n->sn_strchange_event.strchange_flags),
			    association_name(n->sn_strchange_event.strchange_assoc_id), n->sn_strchange_event.strchange_instrms,
			    n->sn_strchange_event.strchange_outstrms);
	}
	return text("notification 0x%x", n->sn_header.sn_type);
}

static const char *sctp_control(const struct cmsghdr *header, size_t length)
{
	const void *data = CMSG_DATA(header);
	if (header->cmsg_type == SCTP_SNDRCV && length == sizeof(struct sctp_sndrcvinfo)) {
		struct sctp_sndrcvinfo info;
		memcpy(&info, data, sizeof(info));
		return text("SNDRCV{sid=%u ssn=%u flags=%s ppid=%u context=%u ttl=%u tsn=%s cumtsn=%s id=%s}", info.sinfo_stream,
			    info.sinfo_ssn, info_flags(info.sinfo_flags), ntohl(info.sinfo_ppid), info.sinfo_context,
			    info.sinfo_timetolive, tsn_name(info.sinfo_tsn), some(info.sinfo_cumtsn), association_name(info.sinfo_assoc_id));
	}
	if (header->cmsg_type == SCTP_RCVINFO && length == sizeof(struct sctp_rcvinfo)) {
		struct sctp_rcvinfo info;
		memcpy(&info, data, sizeof(info));
		return text("RCVINFO{sid=%u ssn=%u flags=%s ppid=%u tsn=%s cumtsn=%s context=%u id=%s}", info.rcv_sid, info.rcv_ssn,
			    info_flags(info.rcv_flags), ntohl(info.rcv_ppid), tsn_name(info.rcv_tsn), some(info.rcv_cumtsn),
			    info.rcv_context, association_name(info.rcv_assoc_id));
	}
	if (header->cmsg_type == SCTP_NXTINFO && length == sizeof(struct sctp_nxtinfo)) {
		struct sctp_nxtinfo info;
		memcpy(&info, data, sizeof(info));
		return text("NXTINFO{sid=%u flags=%s ppid=%u length=%u id=%s}", info.nxt_sid, info_flags(info.nxt_flags),
			    ntohl(info.nxt_ppid), info.nxt_length, association_name(info.nxt_assoc_id));
	}
	return text("SCTP type %d, %zu bytes", header->cmsg_type, length);
}

const char *control_text(struct msghdr *message)
{
	const char *all = "";
	for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header != NULL; header = CMSG_NXTHDR(message, header)) {
		size_t length = header->cmsg_len - CMSG_LEN(0);
		const char *one = header->cmsg_level == IPPROTO_SCTP
					  ? sctp_control(header, length)
					  : text("level %d type %d, %zu bytes", header->cmsg_level, header->cmsg_type, length);
		all = text("%s %s", all, one);
	}
	return all;
}
