/* Gives the calls of a program the names of those of libcarrick. */
#include <netinet/in.h>
#include <netinet/sctp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <carrick.h>

#define accept carrick_accept
#define close carrick_close
#define listen carrick_listen
#define setsockopt carrick_setsockopt
#define shutdown carrick_shutdown
#define socket carrick_socket
#define sctp_bindx carrick_sctp_bindx
#define sctp_connectx carrick_sctp_connectx
#define sctp_freeladdrs carrick_sctp_freeladdrs
#define sctp_freepaddrs carrick_sctp_freepaddrs
#define sctp_getladdrs carrick_sctp_getladdrs
#define sctp_getpaddrs carrick_sctp_getpaddrs
#define sctp_opt_info carrick_sctp_opt_info
#define sctp_peeloff carrick_sctp_peeloff
#define sctp_recvmsg carrick_sctp_recvmsg
#define sctp_recvv carrick_sctp_recvv
#define sctp_send carrick_sctp_send
#define sctp_sendmsg carrick_sctp_sendmsg
#define sctp_sendv carrick_sctp_sendv
