//go:build linux

package sctp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// RFC 6458, section 4: both roles, with addresses of both families.
func TestEcho(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", ":0"} {
		t.Run(address, func(t *testing.T) {
			l := daemon(t).listen(t, address)
			port := l.Addr().(*Addr).Port
			done := make(chan error, 1)
			go func() {
				c, err := l.Accept()
				if err == nil {
					_, err = io.Copy(c, c)
					c.Close()
				}
				done <- err
			}()
			target := fmt.Sprintf("127.0.0.1:%d", port)
			if address == "[::1]:0" {
				target = fmt.Sprintf("[::1]:%d", port)
			}
			c := daemon(t).dial(t, target)
			if _, err := c.Write([]byte("hello")); err != nil {
				t.Fatal(err)
			}
			b := make([]byte, 100)
			n, err := c.Read(b)
			if err != nil || string(b[:n]) != "hello" {
				t.Fatalf("read %q, %v", b[:n], err)
			}
			if err := c.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Read(b); err != io.EOF {
				t.Fatalf("read after the end: %v", err)
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		})
	}
}

// RFC 6458, sections 5.3.4 and 5.3.5
func TestAttributesReachThePeer(t *testing.T) {
	client, server := daemon(t).pair(t)
	for _, sent := range []SndInfo{
		{Stream: 0, PPID: 60},
		{Stream: 3, PPID: 0xdeadbeef},
		{Stream: 1, PPID: 46, Flags: Unordered},
		{Stream: 2, PPID: 1, Flags: SackImmediately, Context: 7},
		{Stream: 1, PPID: 2, PR: PRInfo{PRTTL, 60000}},
		{Stream: 1, PPID: 3, PR: PRInfo{PRRTX, 5}},
	} {
		if _, err := client.WriteMsg([]byte("data"), &sent); err != nil {
			t.Fatalf("%+v: %v", sent, err)
		}
		b := make([]byte, 100)
		n, got, err := server.ReadMsg(b)
		if err != nil || string(b[:n]) != "data" {
			t.Fatalf("read %q, %v", b[:n], err)
		}
		if got.Stream != sent.Stream || got.PPID != sent.PPID || got.Flags&Unordered != sent.Flags&Unordered {
			t.Errorf("sent %+v, received %+v", sent, got)
		}
		if !got.EOR || got.IsNotification() || got.From.Addr().Unmap().String() != "127.0.0.1" {
			t.Errorf("received %+v", got)
		}
	}
}

func TestDefaultAttributesAreUsed(t *testing.T) {
	client, server := daemon(t).pair(t)
	want := SndInfo{Stream: 2, PPID: 60, Context: 9}
	if err := client.SetDefaultSendInfo(want); err != nil {
		t.Fatal(err)
	}
	if got, err := client.DefaultSendInfo(0); err != nil || got.Stream != 2 || got.PPID != 60 {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := client.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	_, got, err := server.ReadMsg(make([]byte, 10))
	if err != nil || got.Stream != 2 || got.PPID != 60 {
		t.Fatalf("%+v, %v", got, err)
	}
}

func pattern(size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i ^ i>>8 ^ i>>16)
	}
	return b
}

func TestLargeMessages(t *testing.T) {
	client, server := daemon(t).pair(t)
	for _, size := range []int{1, maxPayload - 1, maxPayload, maxPayload + 1, 300_000, 1 << 20} {
		sent := pattern(size)
		errs := make(chan error, 1)
		go func() {
			n, err := client.WriteMsg(sent, &SndInfo{Stream: 1, PPID: 5})
			if err == nil && n != size {
				err = io.ErrShortWrite
			}
			errs <- err
		}()
		got := make([]byte, 2<<20)
		n, info, err := server.ReadMsg(got)
		if err != nil || !info.EOR || info.Stream != 1 || !bytes.Equal(got[:n], sent) {
			t.Fatalf("%d bytes: read %d, %+v, %v", size, n, info, err)
		}
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.Write(make([]byte, 1<<20+1)); !errors.Is(err, syscall.EMSGSIZE) {
		t.Errorf("larger than the send buffer: %v", err)
	}
}

func TestSmallBuffersGetTheRest(t *testing.T) {
	client, server := daemon(t).pair(t)
	sent := pattern(150_000)
	for i := 0; i < 2; i++ {
		if _, err := client.Write(sent); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.Write([]byte("next")); err != nil {
		t.Fatal(err)
	}
	var got []byte
	for {
		b := make([]byte, 777)
		n, info, err := server.ReadMsg(b)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, b[:n]...)
		if info.EOR {
			break
		}
		if n != len(b) {
			t.Fatalf("%d bytes in the middle of a message", n)
		}
	}
	if !bytes.Equal(got, sent) {
		t.Fatalf("%d bytes differ from the message", len(got))
	}
	got = make([]byte, len(sent))
	if _, err := io.ReadFull(server, got); err != nil || !bytes.Equal(got, sent) {
		t.Fatal("the second message differs", err)
	}
	n, err := server.Read(got)
	if err != nil || string(got[:n]) != "next" {
		t.Fatalf("%q, %v", got[:n], err)
	}
}

func TestReadDeadlines(t *testing.T) {
	client, server := daemon(t).pair(t)
	for _, wait := range []time.Duration{-time.Second, 50 * time.Millisecond} {
		server.SetReadDeadline(time.Now().Add(wait))
		_, err := server.Read(make([]byte, 10))
		var timeout net.Error
		if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Fatalf("%v: %v", wait, err)
		}
	}
	server.SetDeadline(time.Time{})
	if _, err := client.Write([]byte("later")); err != nil {
		t.Fatal(err)
	}
	if n, err := server.Read(make([]byte, 10)); n != 5 || err != nil {
		t.Fatal(n, err)
	}
}

// What was accepted before the deadline arrives whole, in order and once.
func TestWriteDeadlines(t *testing.T) {
	for _, size := range []int{5000, 200_000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			client, server := daemon(t).pair(t)
			sent := 0
			expired := 0
			for expired < 3 {
				client.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
				message := pattern(size)
				native.PutUint32(message, uint32(sent))
				n, err := client.Write(message)
				switch {
				case errors.Is(err, os.ErrDeadlineExceeded) && n == 0:
					expired++
				case err != nil || n != size:
					t.Fatal(n, err)
				default:
					sent++
				}
			}
			got := make([]byte, size+1)
			for number := 0; number < sent; number++ {
				n, info, err := server.ReadMsg(got)
				want := pattern(size)
				native.PutUint32(want, uint32(number))
				if err != nil || !info.EOR || !bytes.Equal(got[:n], want) {
					t.Fatalf("message %d of %d: %d bytes, %+v, %v", number, sent, n, info, err)
				}
			}
			client.SetWriteDeadline(time.Time{})
			if _, err := client.Write([]byte("end")); err != nil {
				t.Fatal(err)
			}
			if n, err := server.Read(got); err != nil || string(got[:n]) != "end" {
				t.Fatalf("%q, %v", got[:n], err)
			}
		})
	}
}

func TestAcceptDeadline(t *testing.T) {
	l := daemon(t).listen(t, "127.0.0.1:0")
	l.SetDeadline(time.Now().Add(20 * time.Millisecond))
	if _, err := l.Accept(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
}

func TestNonblockingCallsReturnEAGAIN(t *testing.T) {
	client, server := daemon(t).pair(t)
	server.SetNonblock(true)
	if _, err := server.Read(make([]byte, 10)); !errors.Is(err, syscall.EAGAIN) {
		t.Fatal(err)
	}
	client.SetNonblock(true)
	for {
		_, err := client.Write(pattern(10_000))
		if errors.Is(err, syscall.EAGAIN) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestCloseWakesBlockedCalls(t *testing.T) {
	client, server := daemon(t).pair(t)
	l := daemon(t).listen(t, "127.0.0.1:0")
	calls := map[string]func() error{
		"read": func() error { _, err := client.Read(make([]byte, 10)); return err },
		"write": func() error {
			for {
				if _, err := client.Write(pattern(50_000)); err != nil {
					return err
				}
			}
		},
		"accept": func() error { _, err := l.Accept(); return err },
	}
	var calling sync.WaitGroup
	for name, call := range calls {
		name, call := name, call
		calling.Add(1)
		go func() {
			defer calling.Done()
			if err := call(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("%s: %v", name, err)
			}
		}()
	}
	time.Sleep(200 * time.Millisecond)
	if err := errors.Join(client.Close(), l.Close()); err != nil {
		t.Error(err)
	}
	within(t, "a call on a closed socket", calling.Wait)
	for name, call := range calls {
		if err := call(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
	if err := client.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("second Close: %v", err)
	}
	if err := client.SetNoDelay(true); !errors.Is(err, net.ErrClosed) {
		t.Errorf("SetNoDelay after Close: %v", err)
	}
	if client.LocalAddr().String() == ":0" || client.RemoteAddr().String() != server.LocalAddr().String() {
		t.Errorf("addresses after Close: %v, %v", client.LocalAddr(), client.RemoteAddr())
	}
}

func TestConcurrentCallsAndClose(t *testing.T) {
	for round := 0; round < 20; round++ {
		client, server := daemon(t).pair(t)
		var calling sync.WaitGroup
		run := func(call func() error) {
			calling.Add(1)
			go func() {
				defer calling.Done()
				for call() == nil {
				}
			}()
		}
		for i := 0; i < 3; i++ {
			for _, c := range []*Conn{client, server} {
				c := c
				run(func() error { _, err := c.Write(pattern(70_000)); return err })
				run(func() error { _, err := c.Read(make([]byte, 1000)); return err })
				run(func() error { _, err := c.Status(0); return err })
				run(func() error { return c.SetDeadline(time.Now().Add(time.Minute)) })
			}
		}
		time.Sleep(time.Duration(round) * time.Millisecond)
		first, second := client, server
		if round%2 == 1 {
			first, second = server, client
		}
		first.Close()
		second.Close()
		within(t, "a call of a closed connection", calling.Wait)
	}
}

// RFC 9260, section 9.1
func TestAbortIsECONNRESET(t *testing.T) {
	client, server := daemon(t).pair(t)
	blocked := make(chan error, 1)
	go func() {
		_, err := server.Read(make([]byte, 10))
		blocked <- err
	}()
	time.Sleep(50 * time.Millisecond)
	if err := client.Abort(); err != nil {
		t.Fatal(err)
	}
	if err := <-blocked; !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read: %v", err)
	}
	if _, err := server.Read(make([]byte, 10)); err != io.EOF {
		t.Errorf("second read: %v", err)
	}
	if _, err := server.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("write: %v", err)
	}
}

// isRefused returns whether a message was refused because the association is shutting down, or has ended.
func isRefused(err error) bool {
	return errors.Is(err, syscall.ESHUTDOWN) || errors.Is(err, syscall.EPIPE)
}

// RFC 9260, section 9.2
func TestShutdownDeliversWhatWasWritten(t *testing.T) {
	client, server := daemon(t).pair(t)
	const count = 500
	go func() {
		for i := 0; i < count; i++ {
			client.Write(pattern(3000))
		}
		client.Close()
	}()
	b := make([]byte, 4000)
	for i := 0; i < count; i++ {
		if n, err := server.Read(b); n != 3000 || err != nil {
			t.Fatal(i, n, err)
		}
	}
	if _, err := server.Read(b); err != io.EOF {
		t.Fatal(err)
	}
	if _, err := server.Write(b); !isRefused(err) {
		t.Errorf("write after the end: %v", err)
	}
}

// RFC 9260, section 9.2: in SHUTDOWN-RECEIVED no new message is accepted. The association stays in this state,
// since the peer does not read.
func TestWriteAfterTheShutdownOfThePeerIsRefused(t *testing.T) {
	client, server := daemon(t).pair(t)
	server.SetNonblock(true)
	for {
		_, err := server.Write(pattern(10_000))
		if errors.Is(err, syscall.EAGAIN) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if err := client.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	server.SetNonblock(false)
	if _, err := server.Read(make([]byte, 10)); err != io.EOF {
		t.Fatal(err)
	}
	if _, err := server.Write([]byte("late")); !isRefused(err) {
		t.Errorf("write after the end: %v", err)
	}
}

func TestWriteAfterCloseWriteIsRefused(t *testing.T) {
	client, _ := daemon(t).pair(t)
	if err := client.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	_, err := client.Write([]byte("x"))
	if !isRefused(err) {
		t.Fatal(err)
	}
}

func TestInvalidStreamIsEINVAL(t *testing.T) {
	client, _ := daemon(t).pair(t)
	if _, err := client.WriteMsg([]byte("x"), &SndInfo{Stream: 0xffff}); !errors.Is(err, syscall.EINVAL) {
		t.Fatal(err)
	}
	if _, err := client.WriteMsg(nil, nil); !errors.Is(err, syscall.EINVAL) {
		t.Fatal(err)
	}
	if err := client.SetDefaultSendInfo(SndInfo{Stream: 0xffff}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Write([]byte("x")); !errors.Is(err, syscall.EINVAL) {
		t.Fatal(err)
	}
	if _, err := client.WriteMsg([]byte("x"), &SndInfo{}); err != nil {
		t.Fatal(err)
	}
}

func TestRefusedAssociations(t *testing.T) {
	d := daemon(t)
	l := d.listen(t, "127.0.0.1:0")
	address := l.Addr().String()
	l.Close()
	_, err := d.config().DialContext(context.Background(), "sctp", address)
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatal(err)
	}
	var failed *net.OpError
	if !errors.As(err, &failed) || failed.Op != "dial" || failed.Addr.String() != address {
		t.Errorf("%#v", err)
	}
}

func TestClosedListenersFreeTheirPort(t *testing.T) {
	d := daemon(t)
	address := "127.0.0.1:0"
	for i := 0; i < 100; i++ {
		l := d.listen(t, address)
		address = l.Addr().String()
		c := d.dial(t, address)
		c.Close()
		l.Close()
	}
}

func TestContextsEndTheSetUp(t *testing.T) {
	config := daemon(t).config()
	// Nothing answers at an address of documentation (RFC 5737).
	const silent = "192.0.2.1:5000"
	deadline, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := config.DialContext(deadline, "sctp", silent); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("deadline: %v", err)
	}
	canceled, cancel := context.WithCancel(context.Background())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := config.DialContext(canceled, "sctp", silent); !errors.Is(err, context.Canceled) {
		t.Errorf("cancel: %v", err)
	}
	if _, err := config.DialContext(canceled, "sctp", silent); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled before: %v", err)
	}
}

func TestSilentPeersAreETIMEDOUT(t *testing.T) {
	config := daemon(t).config()
	config.Init = InitMsg{MaxAttempts: 1, MaxTimeout: 50}
	config.Control = func(s *Socket) error { return s.SetRTOInfo(RTOInfo{Initial: 50, Min: 50, Max: 100}) }
	within(t, "a set-up without an answer", func() {
		_, err := config.DialContext(context.Background(), "sctp", "192.0.2.1:5000")
		if !errors.Is(err, syscall.ETIMEDOUT) {
			t.Error(err)
		}
	})
}

func TestManyConnections(t *testing.T) {
	d := daemon(t)
	before := descriptors(t)
	l := d.listen(t, "127.0.0.1:0")
	const count = 200
	var serving, dialing sync.WaitGroup
	serving.Add(count)
	go func() {
		for i := 0; i < count; i++ {
			c, err := l.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			go func() {
				defer serving.Done()
				defer c.Close()
				io.Copy(c, c)
			}()
		}
	}()
	var failed atomic.Int32
	for i := 0; i < count; i++ {
		dialing.Add(1)
		go func(number int) {
			defer dialing.Done()
			c, err := d.config().DialContext(context.Background(), "sctp", l.Addr().String())
			if err != nil {
				t.Errorf("connection %d: %v", number, err)
				return
			}
			defer c.Close()
			for round := 0; round < 5; round++ {
				sent := []byte(fmt.Sprintf("connection %d, message %d", number, round))
				got := make([]byte, 100)
				if _, err := c.Write(sent); err != nil {
					failed.Add(1)
				}
				if n, err := c.Read(got); err != nil || !bytes.Equal(got[:n], sent) {
					failed.Add(1)
				}
			}
		}(i)
	}
	within(t, "a connection", dialing.Wait)
	if failed.Load() > 0 {
		t.Errorf("%d calls failed", failed.Load())
	}
	within(t, "the end of a connection", serving.Wait)
	l.Close()
	if after := descriptors(t); after > before+2 {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

// descriptors returns the number of open descriptors of the process.
func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// After kill -9 of the daemon every call returns: the associations are lost.
func TestKilledDaemonIsECONNRESET(t *testing.T) {
	d := ownDaemon(t)
	reader, _ := d.pair(t)
	writer, _ := d.pair(t)
	l := d.listen(t, "127.0.0.1:0")
	connecting := make(chan error, 1)
	go func() {
		_, err := d.config().DialContext(context.Background(), "sctp", "192.0.2.1:5000")
		connecting <- err
	}()
	many, err := d.config().ListenMany("sctp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer many.Close()
	blocked := map[string]func() error{
		"read": func() error { _, err := reader.Read(make([]byte, 10)); return err },
		"write": func() error {
			for {
				if _, err := writer.Write(pattern(100_000)); err != nil {
					return err
				}
			}
		},
		"accept":           func() error { _, err := l.Accept(); return err },
		"one-to-many read": func() error { _, _, err := many.ReadMsg(make([]byte, 10)); return err },
		"dial":             func() error { return <-connecting },
	}
	var calling sync.WaitGroup
	for name, call := range blocked {
		name, call := name, call
		calling.Add(1)
		go func() {
			defer calling.Done()
			if err := call(); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("%s: %v", name, err)
			}
		}()
	}
	time.Sleep(300 * time.Millisecond)
	d.Kill()
	within(t, "a call without a daemon", calling.Wait)
	for name, call := range map[string]func() error{
		"read":    func() error { _, err := reader.Read(make([]byte, 10)); return err },
		"write":   func() error { _, err := reader.Write([]byte("x")); return err },
		"option":  func() error { return reader.SetNoDelay(true) },
		"status":  func() error { _, err := reader.Status(0); return err },
		"peeloff": func() error { _, err := many.Peeloff(5); return err },
		"accept":  func() error { _, err := l.Accept(); return err },
	} {
		if err := call(); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s afterwards: %v", name, err)
		}
	}
	if _, err := d.config().Listen("sctp", ":0"); !errors.Is(err, ErrNoDaemon) {
		t.Errorf("listen: %v", err)
	}
	if err := reader.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// Associations are lost with their daemon; its successor serves sockets that are opened later.
func TestRestartedDaemonServesNewSockets(t *testing.T) {
	d := ownDaemon(t)
	lost, _ := d.pair(t)
	if err := d.Restart(); err != nil {
		t.Fatal(err)
	}
	if _, err := lost.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("write: %v", err)
	}
	if _, err := lost.Status(0); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("status: %v", err)
	}
	client, server := d.pair(t)
	if _, err := client.Write([]byte("new")); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 10)
	if n, err := server.Read(b); err != nil || string(b[:n]) != "new" {
		t.Fatalf("%q, %v", b[:n], err)
	}
}

func TestMissingDaemonIsErrNoDaemon(t *testing.T) {
	config := &Config{Daemon: t.TempDir() + "/none"}
	if _, err := config.DialContext(context.Background(), "sctp", "127.0.0.1:5000"); !errors.Is(err, ErrNoDaemon) {
		t.Error(err)
	}
	if _, err := config.Listen("sctp", ":0"); !errors.Is(err, ErrNoDaemon) {
		t.Error(err)
	}
	if _, err := Dial("tcp", "127.0.0.1:5000"); err == nil {
		t.Error("tcp is a network of another package")
	}
	if _, err := config.DialAddr(context.Background(), "sctp", nil); err == nil {
		t.Error("connected to no address")
	}
}

// Bytes that are no frame end the descriptor.
func TestOtherBytesAreECONNABORTED(t *testing.T) {
	client, server := daemon(t).pair(t)
	raw, err := client.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(fd uintptr) { _, err = syscall.Write(int(fd), []byte("GET / HTTP/1.1")) })
	if err != nil {
		t.Fatal(err)
	}
	within(t, "a read", func() {
		if _, err := client.Read(make([]byte, 10)); !errors.Is(err, syscall.ECONNABORTED) {
			t.Errorf("own end: %v", err)
		}
		if _, err := server.Read(make([]byte, 10)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("peer: %v", err)
		}
	})
}

func TestDescriptorsOfOtherProcesses(t *testing.T) {
	d := daemon(t)
	t.Setenv(DaemonVariable, d.Socket)
	client, server := d.pair(t)
	raw, err := client.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var number int
	raw.Control(func(fd uintptr) { number, err = syscall.Dup(int(fd)) })
	if err != nil {
		t.Fatal(err)
	}
	copied, err := FDConn(number)
	if err != nil {
		t.Fatal(err)
	}
	defer copied.Close()
	if copied.RemoteAddr().String() != client.RemoteAddr().String() {
		t.Errorf("%v differs from %v", copied.RemoteAddr(), client.RemoteAddr())
	}
	if _, err := copied.Write([]byte("copy")); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 10)
	if n, err := server.Read(b); err != nil || string(b[:n]) != "copy" {
		t.Fatalf("%q, %v", b[:n], err)
	}
	other, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := FileConn(other); err == nil {
		t.Error("a descriptor of another file became a connection")
	}
}
