//go:build linux

package sctp_test

import (
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/free5gc/sctp"
)

// ngap is PPID 60 as programs of this module write it on a little-endian machine.
const ngap = 0x3c000000

// loopback returns an address of the tests' daemon, which CARRICK_DAEMON names.
func loopback(t *testing.T) *sctp.SCTPAddr {
	t.Helper()
	if os.Getenv("CARRICK_DAEMON") == "" {
		t.Skip("CARRICK_DAEMON is not set")
	}
	return &sctp.SCTPAddr{IPAddrs: []net.IPAddr{{IP: net.IPv4(127, 0, 0, 1)}}}
}

func pair(t *testing.T) (*sctp.SCTPConn, *sctp.SCTPConn) {
	t.Helper()
	config := sctp.SocketConfig{
		InitMsg: sctp.InitMsg{NumOstreams: 3, MaxInstreams: 5, MaxAttempts: 2, MaxInitTimeout: 2},
		RtoInfo: &sctp.RtoInfo{SrtoInitial: 500, SrtoMax: 1500, StroMin: 100}, MaxSeg: 1200,
		AssocInfo: &sctp.AssocInfo{AsocMaxRxt: 4, CookieLife: 30000},
	}
	listener, err := config.Listen("sctp", loopback(t))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if size, err := listener.MaxSeg(); err != nil || size != 1200 {
		t.Fatal(size, err)
	}
	client, err := config.Dial("sctp", nil, listener.Addr().(*sctp.SCTPAddr))
	if err != nil {
		t.Fatal(err)
	}
	server, err := listener.AcceptSCTP(1000)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

// An access and mobility function reads so: with SetReadTimeout and notifications.
func TestMessagesAndNotifications(t *testing.T) {
	client, server := pair(t)
	events := sctp.SCTP_EVENT_DATA_IO | sctp.SCTP_EVENT_SHUTDOWN | sctp.SCTP_EVENT_ASSOCIATION
	if err := server.SubscribeEvents(events); err != nil {
		t.Fatal(err)
	}
	if err := server.SetReadTimeout(syscall.Timeval{Usec: 20_000}); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 1000)
	if _, _, _, err := server.SCTPRead(buffer); err != syscall.EAGAIN {
		t.Fatal(err)
	}
	if err := server.SetReadTimeout(syscall.Timeval{Sec: 10}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.SCTPWrite([]byte("setup"), &sctp.SndRcvInfo{Stream: 1, PPID: ngap}); err != nil {
		t.Fatal(err)
	}
	n, info, notification, err := server.SCTPRead(buffer)
	if err != nil || string(buffer[:n]) != "setup" || notification != nil || info.PPID != ngap || info.Stream != 1 {
		t.Fatalf("%q, %+v, %v, %v", buffer[:n], info, notification, err)
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	_, _, notification, err = server.SCTPRead(buffer)
	shutdown, ok := notification.(*sctp.SCTPShutdownEvent)
	if err != nil || !ok || shutdown.Type() != sctp.SCTP_SHUTDOWN_EVENT || shutdown.Length() != 12 {
		t.Fatalf("%#v, %v", notification, err)
	}
	// The end of the association follows, with a notification if it comes before the end of messages.
	_, _, notification, err = server.SCTPRead(buffer)
	if change, ok := notification.(*sctp.SCTPAssocChangeEvent); ok {
		if change.State() != sctp.SCTP_SHUTDOWN_COMP || change.AssocID() != shutdown.AssocID() {
			t.Fatalf("%#v", change)
		}
		_, _, _, err = server.SCTPRead(buffer)
	}
	if err != io.EOF {
		t.Fatal(err)
	}
}

// RFC 6458, section 6.1.1
func TestAbortsAreNotified(t *testing.T) {
	client, server := pair(t)
	if err := server.SubscribeEvents(sctp.SCTP_EVENT_ASSOCIATION); err != nil {
		t.Fatal(err)
	}
	// Messages that were not read abort the association.
	if _, err := server.Write([]byte("unread")); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond)
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	_, _, notification, err := server.SCTPRead(make([]byte, 1000))
	change, ok := notification.(*sctp.SCTPAssocChangeEvent)
	if err != nil || !ok || change.State() != sctp.SCTP_COMM_LOST || len(change.Info()) == 0 {
		t.Fatalf("%+v, %v", change, err)
	}
	if _, _, _, err := server.SCTPRead(make([]byte, 10)); err != syscall.ECONNRESET {
		t.Fatal(err)
	}
}

func TestParameters(t *testing.T) {
	client, _ := pair(t)
	if rto, err := client.GetRtoInfo(); err != nil || rto.SrtoInitial != 500 || rto.SrtoMax != 1500 {
		t.Error(rto, err)
	}
	if err := client.SetRtoInfo(sctp.RtoInfo{SrtoInitial: 600}); err != nil {
		t.Error(err)
	}
	if info, err := client.GetAssocInfo(); err != nil || info.AsocMaxRxt != 4 || info.CookieLife != 30000 {
		t.Error(info, err)
	}
	if size, err := client.GetMaxSegSize(); err != nil || *size != 1200 {
		t.Error(size, err)
	}
	if err := client.SetMaxSegSize(1000); err != nil {
		t.Error(err)
	}
	if err := client.SetNonBlock(true); err != nil {
		t.Error(err)
	}
	if _, err := client.Read(make([]byte, 10)); err != syscall.EAGAIN {
		t.Error(err)
	}
}

func TestClosedListenersReturnNoConnection(t *testing.T) {
	listener, err := sctp.ListenSCTP("sctp", loopback(t))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		c, err := listener.AcceptSCTP(-1)
		if c != nil {
			err = io.ErrUnexpectedEOF
		}
		done <- err
	}()
	time.Sleep(50 * time.Millisecond)
	if err := listener.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil || !listener.IsStopped() {
		t.Error(err)
	}
}
