//go:build linux

package sctp

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/carrick-sctp/carrick/bindings/go/internal/daemontest"
)

// limit is the time after which a call that should return counts as blocked.
const limit = daemontest.Limit

var shared struct {
	sync.Once
	daemon *daemontest.Daemon
	err    error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.daemon != nil {
		shared.daemon.Kill()
	}
	os.Exit(code)
}

type testDaemon struct{ *daemontest.Daemon }

// daemon returns the daemon that tests share. Without CARRICK the test is skipped.
func daemon(t *testing.T) testDaemon {
	t.Helper()
	daemontest.Require(t)
	shared.Do(func() { shared.daemon, shared.err = daemontest.Start() })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return testDaemon{shared.daemon}
}

// ownDaemon returns a daemon that the test may kill.
func ownDaemon(t *testing.T) testDaemon {
	t.Helper()
	daemontest.Require(t)
	d, err := daemontest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Kill)
	return testDaemon{d}
}

func (d testDaemon) config() *Config { return &Config{Daemon: d.Socket} }

func (d testDaemon) listen(t *testing.T, address string) *Listener {
	t.Helper()
	l, err := d.config().Listen("sctp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// pair returns both ends of an association on loopback.
func (d testDaemon) pair(t *testing.T) (*Conn, *Conn) {
	t.Helper()
	l := d.listen(t, "127.0.0.1:0")
	defer l.Close()
	client := d.dial(t, l.Addr().String())
	server, err := l.AcceptSCTP()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return client, server
}

func (d testDaemon) dial(t *testing.T, address string) *Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c, err := d.config().DialContext(ctx, "sctp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// within fails the test if a function does not return in time.
func within(t *testing.T, what string, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
	case <-time.After(limit):
		t.Fatalf("%s blocks", what)
	}
}
