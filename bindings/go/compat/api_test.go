//go:build linux

package compat_test

import (
	"go/ast"
	"go/build"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
	"testing"
)

// loader type-checks packages of folders. Packages that it does not find are empty: exported names do not
// depend on them.
type loader struct {
	files    *token.FileSet
	standard types.Importer
	folders  map[string]string
	loaded   map[string]*types.Package
}

func (l *loader) Import(name string) (*types.Package, error) {
	if known := l.loaded[name]; known != nil {
		return known, nil
	}
	folder, ok := l.folders[name]
	if !ok {
		if found, err := l.standard.Import(name); err == nil {
			return found, nil
		}
		empty := types.NewPackage(name, filepath.Base(name))
		empty.MarkComplete()
		return empty, nil
	}
	found, err := build.ImportDir(folder, 0)
	if err != nil {
		return nil, err
	}
	var parsed []*ast.File
	for _, file := range found.GoFiles {
		tree, err := parser.ParseFile(l.files, filepath.Join(folder, file), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, tree)
	}
	config := types.Config{Importer: l, Error: func(error) {}}
	// Errors are those of the packages that are empty.
	checked, _ := config.Check(name, l.files, parsed, nil)
	l.loaded[name] = checked
	return checked, nil
}

// compare fails for each exported identifier, field and method of the original that is missing in ours, or
// has another type or value.
func compare(t *testing.T, m module, original, ours string) {
	t.Helper()
	files := token.NewFileSet()
	l := &loader{
		files: files, standard: importer.ForCompiler(files, "source", nil), loaded: map[string]*types.Package{},
		folders: map[string]string{
			"original": original, "ours": ours, core: root(t), core + "/compat": filepath.Join(root(t), "compat"),
		},
	}
	want, err := l.Import("original")
	if err != nil {
		t.Fatal(err)
	}
	got, err := l.Import("ours")
	if err != nil {
		t.Fatal(err)
	}
	c := &comparison{t: t, counts: map[string]int{}}
	for _, name := range want.Scope().Names() {
		if token.IsExported(name) {
			c.object(want.Scope().Lookup(name), got.Scope().Lookup(name))
		}
	}
	t.Logf("%s %s: %d constants, %d functions, %d types, %d fields, %d methods", m.path, m.version,
		c.counts["constant"], c.counts["function"], c.counts["type"], c.counts["field"], c.counts["method"])
	if c.counts["constant"] < 50 || c.counts["method"] < 50 {
		t.Error("the API of the original was not read")
	}
}

type comparison struct {
	t      *testing.T
	counts map[string]int
}

func (c *comparison) object(want, got types.Object) {
	if got == nil {
		c.t.Errorf("%s is missing", want.Name())
		return
	}
	switch want := want.(type) {
	case *types.Const:
		c.counts["constant"]++
		found, ok := got.(*types.Const)
		if !ok || typeName(found.Type()) != typeName(want.Type()) || !constant.Compare(found.Val(), token.EQL, want.Val()) {
			c.t.Errorf("%v, not %v", got, want)
		}
	case *types.Func, *types.Var:
		c.counts["function"]++
		c.same(want.Name(), want.Type(), got.Type())
	case *types.TypeName:
		c.counts["type"]++
		if _, ok := got.(*types.TypeName); !ok {
			c.t.Errorf("%v is no type", got)
			return
		}
		c.typed(want.Name(), want.Type(), got.Type())
	}
}

func (c *comparison) typed(name string, want, got types.Type) {
	if structure, ok := want.Underlying().(*types.Struct); ok {
		for i := 0; i < structure.NumFields(); i++ {
			field := structure.Field(i)
			if !field.Exported() {
				continue
			}
			c.counts["field"]++
			found, _, _ := types.LookupFieldOrMethod(got, true, nil, field.Name())
			if found == nil {
				c.t.Errorf("%s.%s is missing", name, field.Name())
				continue
			}
			c.same(name+"."+field.Name(), field.Type(), found.Type())
		}
		if sizes := types.SizesFor("gc", build.Default.GOARCH); isPlain(structure) && sizes.Sizeof(want) != sizes.Sizeof(got) {
			c.t.Errorf("%s has %d bytes, not %d", name, sizes.Sizeof(got), sizes.Sizeof(want))
		}
	} else if _, ok := want.Underlying().(*types.Interface); !ok {
		c.same(name, want.Underlying(), got.Underlying())
	}
	methods := types.NewMethodSet(pointer(want))
	for i := 0; i < methods.Len(); i++ {
		method := methods.At(i).Obj()
		if !method.Exported() {
			continue
		}
		c.counts["method"]++
		found := types.NewMethodSet(pointer(got)).Lookup(nil, method.Name())
		if found == nil {
			c.t.Errorf("%s.%s is missing", name, method.Name())
			continue
		}
		c.same(name+"."+method.Name(), method.Type(), found.Obj().Type())
	}
}

// isPlain returns whether a struct is passed to the system: it has exported fields of numbers.
func isPlain(structure *types.Struct) bool {
	for i := 0; i < structure.NumFields(); i++ {
		if field := structure.Field(i); !field.Exported() && field.Name() != "_" {
			return false
		}
		switch structure.Field(i).Type().Underlying().(type) {
		case *types.Basic, *types.Array, *types.Struct:
		default:
			return false
		}
	}
	return structure.NumFields() > 0
}

func pointer(t types.Type) types.Type {
	if types.IsInterface(t) {
		return t
	}
	return types.NewPointer(t)
}

func (c *comparison) same(name string, want, got types.Type) {
	if typeName(want) != typeName(got) {
		c.t.Errorf("%s is %s, not %s", name, typeName(got), typeName(want))
	}
}

// typeName returns a type without names of parameters, and without the packages of the two APIs.
func typeName(t types.Type) string {
	signature, ok := t.(*types.Signature)
	if !ok {
		return types.TypeString(t, func(p *types.Package) string {
			if p.Path() == "original" || p.Path() == "ours" || strings.HasPrefix(p.Path(), core) {
				return ""
			}
			return p.Path()
		})
	}
	list := func(tuple *types.Tuple) string {
		names := make([]string, tuple.Len())
		for i := range names {
			names[i] = typeName(tuple.At(i).Type())
		}
		return "(" + strings.Join(names, ", ") + ")"
	}
	name := "func" + list(signature.Params()) + " " + list(signature.Results())
	if signature.Variadic() {
		name += " variadic"
	}
	return name
}
