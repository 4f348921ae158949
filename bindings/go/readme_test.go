//go:build linux

package sctp

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestFirstProgramRuns(t *testing.T) {
	d := daemon(t)
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "```go\n")
	program, rest, ended := strings.Cut(rest, "```")
	_, expected, shown := strings.Cut(rest, "go run .\n")
	expected, _, closed := strings.Cut(expected, "```")
	if !found || !ended || !shown || !closed {
		t.Fatal("the README has no program")
	}
	root, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	const path = "github.com/carrick-sctp/carrick/bindings/go"
	module := fmt.Sprintf("module program\n\ngo 1.21\n\nrequire %s v0.1.0\n\nreplace %s => %s\n", path, path, root)
	for name, text := range map[string]string{"go.mod": module, "main.go": program} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.Command("go", "run", ".")
	command.Dir = folder
	command.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off", DaemonVariable+"="+d.Socket)
	output, err := command.CombinedOutput()
	if err != nil || string(output) != expected {
		t.Fatalf("%v\n%s, not\n%s", err, output, expected)
	}
}
