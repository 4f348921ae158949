//go:build linux

package compat_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/carrick-sctp/carrick/bindings/go/internal/daemontest"
)

const core = "github.com/carrick-sctp/carrick/bindings/go"

// modules are the modules whose API is provided, with the version that the tests compare with.
var modules = []module{
	{
		path: "github.com/ishidawataru/sctp", version: "v0.0.0-20251114114122-19ddcbc6aae2",
		folder: "ishidawataru",
	},
	{path: "github.com/free5gc/sctp", version: "v1.0.1", folder: "free5gc"},
}

type module struct{ path, version, folder string }

// root returns the folder of the module of package sctp.
func root(t *testing.T) string {
	t.Helper()
	folder, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

// fetch returns the folder of the original module. Without a network the test is skipped.
func (m module) fetch(t *testing.T) string {
	t.Helper()
	command := exec.Command("go", "mod", "download", "-json", m.path+"@"+m.version)
	command.Dir = t.TempDir()
	output, err := command.Output()
	var found struct{ Dir, Error string }
	if err := json.Unmarshal(output, &found); err != nil {
		t.Skipf("%s: %v", m.path, err)
	}
	if err != nil || found.Dir == "" {
		t.Skipf("%s cannot be fetched: %v %s", m.path, err, found.Error)
	}
	return found.Dir
}

// program returns a folder with a module that replaces m.
func (m module) program(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	write(t, filepath.Join(folder, "go.mod"), fmt.Sprintf(
		"module program\n\ngo 1.21\n\nrequire %s %s\n\nrequire %s v0.1.0\n\nreplace %s => %s\n\nreplace %s => %s\n",
		m.path, m.version, core, m.path, filepath.Join(root(t), m.folder), core, root(t)))
	return folder
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func daemon(t *testing.T) *daemontest.Daemon {
	t.Helper()
	daemontest.Require(t)
	d, err := daemontest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Kill)
	return d
}

func goCommand(t *testing.T, folder string, arguments ...string) *exec.Cmd {
	t.Helper()
	command := exec.Command("go", arguments...)
	command.Dir = folder
	command.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
	return command
}

func TestExportedAPIIsComplete(t *testing.T) {
	for _, m := range modules {
		t.Run(m.folder, func(t *testing.T) { compare(t, m, m.fetch(t), filepath.Join(root(t), m.folder)) })
	}
}

// Both modules have an example program, which is server and client.
func TestExampleProgramsRun(t *testing.T) {
	for i, m := range modules {
		t.Run(m.folder, func(t *testing.T) {
			d := daemon(t)
			folder := m.program(t)
			write(t, filepath.Join(folder, "main.go"), string(read(t, filepath.Join(m.fetch(t), "example", "sctp.go"))))
			if output, err := goCommand(t, folder, "build", "-o", "example", ".").CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, output)
			}
			run := func(arguments ...string) *bytes.Buffer {
				output := &bytes.Buffer{}
				command := exec.Command(filepath.Join(folder, "example"), append(arguments, "-ip", "127.0.0.1", "-port", strconv.Itoa(6000+i))...)
				command.Env = append(os.Environ(), "CARRICK_DAEMON="+d.Socket)
				command.Stdout, command.Stderr = output, output
				if err := command.Start(); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { command.Process.Kill(); command.Wait() })
				if arguments[0] == "-server" {
					time.Sleep(500 * time.Millisecond)
					return output
				}
				time.Sleep(2500 * time.Millisecond)
				command.Process.Kill()
				command.Wait()
				return output
			}
			run("-server")
			output := run("-bufsize", "300").String()
			for message := 0; message < 2; message++ {
				// %+v of the SndRcvInfo; the PPID counts the messages.
				echoed := fmt.Sprintf("PPID:%d", message)
				if !strings.Contains(output, "read: len 300") || !strings.Contains(output, echoed) {
					t.Errorf("%s is missing in\n%s", echoed, output)
				}
			}
		})
	}
}

// Programs of testdata, as users of the modules write them, are built with their replacement.
func TestProgramsOfUsersRun(t *testing.T) {
	expected := map[string]map[string]int{
		"free5gc": {
			": 2 and 2 addresses": 3, ": 20 answers": 3, "server: a message of another protocol": 3,
			"server: the station has disconnected": 3,
		},
		"ishidawataru": {
			"2 addresses of the peer": 1, "20 answers": 1, "a watchdog": 1, "the peer is alive": 1, "an error true": 1,
		},
	}
	for _, m := range modules {
		t.Run(m.folder, func(t *testing.T) {
			d := daemon(t)
			folder := m.program(t)
			write(t, filepath.Join(folder, "main.go"), string(read(t, filepath.Join("testdata", m.folder, "main.go"))))
			if output, err := goCommand(t, folder, "build", "-o", "program", ".").CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, output)
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			command := exec.CommandContext(ctx, filepath.Join(folder, "program"))
			command.Env = append(os.Environ(), "CARRICK_DAEMON="+d.Socket)
			output, err := command.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, output)
			}
			for text, count := range expected[m.folder] {
				if found := strings.Count(string(output), text); found != count {
					t.Errorf("%q %d times instead of %d in\n%s", text, found, count, output)
				}
			}
		})
	}
}

// unexported are tests of the originals that use names that are not exported.
var unexported = map[string]bool{
	"TestNotificationHandlerAssignmentOnDialing":   true,
	"TestNotificationHandlerAssignmentOnListening": true,
	"TestDialUseControlFuncWithoutLocalAddress":    true,
	"TestListenUseControlFuncWithoutLocalAddress":  true,
	"TestSCTPSetRto":       true,
	"TestSctpSetAssocInfo": true,
	"TestAcceptCancel":     true,
}

// The originals' tests that use exported names alone run with the API of this repository.
func TestTestsOfTheOriginalsPass(t *testing.T) {
	for _, m := range modules {
		t.Run(m.folder, func(t *testing.T) {
			d := daemon(t)
			original, folder := m.fetch(t), m.program(t)
			files, err := filepath.Glob(filepath.Join(original, "*_test.go"))
			if err != nil || len(files) == 0 {
				t.Fatal(files, err)
			}
			for _, file := range files {
				write(t, filepath.Join(folder, filepath.Base(file)), outside(t, m, file))
			}
			command := goCommand(t, folder, "test", "-vet=off", "-count=1", "-v", "-timeout=120s", ".")
			// TestSCTPListenerNameFromFd leaves a file whose finalizer closes a descriptor of another test.
			command.Env = append(command.Env, "CARRICK_DAEMON="+d.Socket, "GOGC=off")
			output, err := command.CombinedOutput()
			passed := strings.Count(string(output), "\n--- PASS: ")
			if err != nil || passed < 5 || strings.Contains(string(output), "\n--- SKIP") {
				t.Fatalf("%d tests passed, %v\n%s", passed, err, output)
			}
			t.Logf("%d tests passed", passed)
		})
	}
}

// outside returns a test file of a package as one of a program that imports it, without the tests that
// use names that are not exported.
func outside(t *testing.T, m module, name string) string {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	file.Name.Name = "program_test"
	kept := file.Decls[:0]
	for _, declaration := range file.Decls {
		if f, ok := declaration.(*ast.FuncDecl); ok && unexported[f.Name.Name] {
			continue
		}
		kept = append(kept, declaration)
	}
	file.Decls = kept
	used := map[string]bool{}
	ast.Inspect(file, func(node ast.Node) bool {
		if selector, ok := node.(*ast.SelectorExpr); ok {
			if name, ok := selector.X.(*ast.Ident); ok {
				used[name.Name] = true
			}
		}
		return true
	})
	for _, declaration := range file.Decls {
		imports, ok := declaration.(*ast.GenDecl)
		if !ok || imports.Tok != token.IMPORT {
			continue
		}
		specs := []ast.Spec{&ast.ImportSpec{
			Name: ast.NewIdent("."), Path: &ast.BasicLit{Kind: token.STRING, Value: strconv.Quote(m.path)},
		}}
		for _, spec := range imports.Specs {
			imported, _ := strconv.Unquote(spec.(*ast.ImportSpec).Path.Value)
			if used[path.Base(imported)] {
				specs = append(specs, spec)
			}
		}
		imports.Specs = specs
		if !imports.Lparen.IsValid() {
			imports.Lparen = imports.Pos()
		}
		break
	}
	var text bytes.Buffer
	if err := format.Node(&text, files, file); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// With released modules, one replace line is all that a project needs.
func TestOneReplaceLineIsEnough(t *testing.T) {
	const version = "v0.1.0"
	proxy := t.TempDir()
	publish(t, proxy, core, version, root(t))
	for _, m := range modules {
		publish(t, proxy, core+"/"+m.folder, version, filepath.Join(root(t), m.folder))
	}
	for _, m := range modules {
		t.Run(m.folder, func(t *testing.T) {
			folder := t.TempDir()
			write(t, filepath.Join(folder, "go.mod"), fmt.Sprintf("module program\n\ngo 1.21\n\nrequire %s %s\n\nreplace %s => %s/%s %s\n",
				m.path, m.version, m.path, core, m.folder, version))
			write(t, filepath.Join(folder, "main.go"), fmt.Sprintf(
				"package main\n\nimport %q\n\nfunc main() { println((&sctp.SCTPAddr{Port: 5}).String()) }\n", m.path))
			command := exec.Command("go", "run", ".")
			command.Dir = folder
			command.Env = append(os.Environ(), "GOFLAGS=-mod=mod -modcacherw", "GOPROXY=file://"+proxy, "GONOSUMDB=*",
				"GOMODCACHE="+t.TempDir(), "GOWORK=off")
			output, err := command.CombinedOutput()
			if err != nil || !strings.Contains(string(output), ":5") {
				t.Fatalf("%v\n%s", err, output)
			}
		})
	}
}

// publish adds a module of the repository to a module proxy in a folder.
func publish(t *testing.T, proxy, modulePath, version, folder string) {
	t.Helper()
	target := filepath.Join(proxy, filepath.FromSlash(modulePath), "@v")
	if err := os.MkdirAll(target, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(target, "list"), version+"\n")
	write(t, filepath.Join(target, version+".info"), fmt.Sprintf(`{"Version":%q}`, version))
	write(t, filepath.Join(target, version+".mod"), string(read(t, filepath.Join(folder, "go.mod"))))
	var packed bytes.Buffer
	archive := zip.NewWriter(&packed)
	err := filepath.Walk(folder, func(name string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		inner, err := os.Stat(filepath.Join(name, "go.mod"))
		if info.IsDir() {
			if err == nil && name != folder && !inner.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		relative, err := filepath.Rel(folder, name)
		if err != nil {
			return err
		}
		entry, err := archive.Create(modulePath + "@" + version + "/" + filepath.ToSlash(relative))
		if err != nil {
			return err
		}
		_, err = entry.Write(read(t, name))
		return err
	})
	if err == nil {
		err = archive.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(target, version+".zip"), packed.String())
}

// The modules' own tests are in their folders.
func TestModulesPassTheirTests(t *testing.T) {
	for _, m := range modules {
		t.Run(m.folder, func(t *testing.T) {
			d := daemon(t)
			command := goCommand(t, filepath.Join(root(t), m.folder), "test", "-count=1", "./...")
			command.Env = append(command.Env, "CARRICK_DAEMON="+d.Socket)
			if output, err := command.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, output)
			}
		})
	}
}
