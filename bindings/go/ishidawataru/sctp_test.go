//go:build linux

package sctp_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/ishidawataru/sctp"
)

// loopback returns an address of the tests' daemon, which CARRICK_DAEMON names.
func loopback(t *testing.T, port int) *sctp.SCTPAddr {
	t.Helper()
	if os.Getenv("CARRICK_DAEMON") == "" {
		t.Skip("CARRICK_DAEMON is not set")
	}
	return &sctp.SCTPAddr{IPAddrs: []net.IPAddr{{IP: net.IPv4(127, 0, 0, 1)}}, Port: port}
}

func pair(t *testing.T, config sctp.SocketConfig) (*sctp.SCTPConn, *sctp.SCTPConn) {
	t.Helper()
	listener, err := sctp.ListenSCTP("sctp", loopback(t, 0))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client, err := config.Dial("sctp", nil, listener.Addr().(*sctp.SCTPAddr))
	if err != nil {
		t.Fatal(err)
	}
	server, err := listener.AcceptSCTP()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

func TestDeadlinesWork(t *testing.T) {
	client, _ := pair(t, sctp.SocketConfig{})
	client.SetDeadline(time.Now().Add(20 * time.Millisecond))
	if _, err := client.Read(make([]byte, 10)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
}

func TestAttributesNeedASubscription(t *testing.T) {
	client, server := pair(t, sctp.SocketConfig{})
	sent := sctp.SndRcvInfo{Stream: 3, PPID: 60, TTL: 60000}
	buffer := make([]byte, 100)
	for _, subscribed := range []bool{false, true} {
		if subscribed {
			if err := server.SubscribeEvents(sctp.SCTP_EVENT_DATA_IO); err != nil {
				t.Fatal(err)
			}
			if events, err := server.SubscribedEvents(); err != nil || events != sctp.SCTP_EVENT_DATA_IO {
				t.Fatal(events, err)
			}
		}
		if _, err := client.SCTPWrite([]byte("data"), &sent); err != nil {
			t.Fatal(err)
		}
		n, info, err := server.SCTPRead(buffer)
		if err != nil || string(buffer[:n]) != "data" || (info != nil) != subscribed {
			t.Fatalf("%q, %+v, %v", buffer[:n], info, err)
		}
		if info != nil && (info.Stream != 3 || info.PPID != 60) {
			t.Errorf("%+v", info)
		}
	}
}

func TestHandlersGetNotifications(t *testing.T) {
	stop := errors.New("stop")
	got := make(chan []byte, 1)
	client, server := pair(t, sctp.SocketConfig{NotificationHandler: func(b []byte) error {
		got <- bytes.Clone(b)
		return stop
	}})
	if err := client.SubscribeEvents(sctp.SCTP_EVENT_SHUTDOWN); err != nil {
		t.Fatal(err)
	}
	server.Close()
	if _, _, err := client.SCTPRead(make([]byte, 1000)); err != stop {
		t.Fatal(err)
	}
	header := (*sctp.NotificationHeader)(unsafe.Pointer(&(<-got)[0]))
	if sctp.SCTPNotificationType(header.Type) != sctp.SCTP_SHUTDOWN_EVENT || header.Length != 12 {
		t.Errorf("%+v", header)
	}
	if _, err := client.Read(make([]byte, 10)); err != io.EOF {
		t.Error(err)
	}
}

func TestOptionsOfPointers(t *testing.T) {
	client, _ := pair(t, sctp.SocketConfig{})
	for want := int32(0); want < 2; want++ {
		value := want
		if _, _, err := client.Setsockopt(sctp.SCTP_NODELAY, uintptr(unsafe.Pointer(&value)), 4); err != nil {
			t.Fatal(err)
		}
		got, size := int32(7), uint32(4)
		_, _, err := client.Getsockopt(sctp.SCTP_NODELAY, uintptr(unsafe.Pointer(&got)), uintptr(unsafe.Pointer(&size)))
		if err != nil || got != want || size != 4 {
			t.Fatal(got, size, err)
		}
	}
	if err := client.SetSackTimer(&sctp.SackTimer{SackDelay: 100, SackFrequency: 2}); err != nil {
		t.Fatal(err)
	}
	if timer, err := client.GetSackTimer(); err != nil || timer.SackDelay != 100 {
		t.Fatal(timer, err)
	}
	want := sctp.SndRcvInfo{Stream: 2, Context: 5}
	if err := client.SetDefaultSentParam(&want); err != nil {
		t.Fatal(err)
	}
	if got, err := client.GetDefaultSentParam(); err != nil || got.Stream != 2 || got.Context != 5 {
		t.Fatal(got, err)
	}
	if status, err := client.GetStatus(); err != nil || status.Ostreams == 0 || status.PrimaryPeerAddr.MTU == 0 {
		t.Fatal(status, err)
	}
	primary, err := client.SCTPGetPrimaryPeerAddr()
	if err != nil || primary.String() != client.RemoteAddr().String() {
		t.Fatal(primary, err)
	}
}

// SCTPBind and SCTPConnect take descriptors.
func TestDescriptorsAreBoundAndConnected(t *testing.T) {
	listener, err := sctp.ListenSCTP("sctp", loopback(t, 0))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	given := errors.New("the descriptor was copied")
	number := -1
	config := sctp.SocketConfig{Control: func(_, _ string, c syscall.RawConn) error {
		err := given
		c.Control(func(fd uintptr) {
			copied, failed := syscall.Dup(int(fd))
			if failed != nil {
				err = failed
				return
			}
			// As another process would pass it.
			number, err = copied, errors.Join(given, syscall.SetNonblock(copied, false))
		})
		return err
	}}
	if _, err := config.Dial("sctp4", nil, listener.Addr().(*sctp.SCTPAddr)); !errors.Is(err, given) {
		t.Fatal(err)
	}
	if err := sctp.SCTPBind(number, loopback(t, 0), sctp.SCTP_BINDX_ADD_ADDR); err != nil {
		t.Fatal(err)
	}
	if _, err := sctp.SCTPConnect(number, listener.Addr().(*sctp.SCTPAddr)); err != nil {
		t.Fatal(err)
	}
	client := sctp.NewSCTPConn(number, nil)
	defer client.Close()
	server, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if _, err := client.Write([]byte("connected")); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 100)
	if n, err := server.Read(buffer); err != nil || string(buffer[:n]) != "connected" {
		t.Fatalf("%q, %v", buffer[:n], err)
	}
}

func TestOtherDescriptorsAreEBADF(t *testing.T) {
	loopback(t, 0)
	c := sctp.NewSCTPConn(-1, nil)
	if _, err := c.Read(make([]byte, 10)); err != syscall.EBADF {
		t.Error(err)
	}
	if err := c.Close(); err != syscall.EBADF {
		t.Error(err)
	}
}

func TestMissingDaemonIsEPROTONOSUPPORT(t *testing.T) {
	address := loopback(t, 5000)
	t.Setenv("CARRICK_DAEMON", t.TempDir()+"/none")
	if _, err := sctp.DialSCTP("sctp", nil, address); !errors.Is(err, syscall.EPROTONOSUPPORT) {
		t.Error(err)
	}
	if _, err := sctp.ListenSCTP("sctp", address); !errors.Is(err, syscall.EPROTONOSUPPORT) {
		t.Error(err)
	}
}
