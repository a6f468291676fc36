package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// module begins the import paths of all packages.
const module = "github.com/isthmus-cloud/isthmus/"

// packageSize is how large a package is.
type packageSize struct {
	Package string `json:"package"`
	Files   int    `json:"files"`
	Lines   int    `json:"lines"`
}

func (p packageSize) mark() string {
	if p.Files > mostFiles || p.Lines > mostLines {
		return "← too large"
	}
	return ""
}

// parameterList is how many parameters a function has after its context.
type parameterList struct {
	Function string `json:"function"`
	Count    int    `json:"count"`
}

// code is the module's, read once.
type code struct {
	root     string
	fset     *token.FileSet
	packages map[string]*sources       // by import path
	checked  map[string]*types.Package // without tests
	foreign  types.Importer
	used     map[string]bool         // "import path.Name" that another package uses
	calls    map[[2]string]bool      // from a file to another one whose function it names
	imposed  map[token.Position]bool // methods whose parameters are those of a method of somebody else's interface
}

// sources are a package as `go list` has it.
type sources struct {
	ImportPath, Dir, Export                            string
	GoFiles, IgnoredGoFiles, TestGoFiles, XTestGoFiles []string
	Imports, TestImports, XTestImports                 []string
}

func (p *sources) rel() string { return strings.TrimPrefix(p.ImportPath, module) }

// production reports whether it is neither tests, tools nor examples.
func (p *sources) production() bool {
	return !slices.ContainsFunc([]string{"test", "hack", "docs"}, func(dir string) bool { return under(p.rel(), dir) })
}

// helper reports whether nobody has to open it who follows what happens: it rests on no other package of the module, as texts,
// backoff and the contract's types do, or it is the clients' library.
func (p *sources) helper() bool {
	return under(p.rel(), "pkg/cloudauth") || !slices.ContainsFunc(p.Imports, func(i string) bool { return strings.HasPrefix(i, module) })
}

// offered reports whether it is for other modules, too.
func (p *sources) offered() bool {
	return slices.ContainsFunc(api, func(dir string) bool { return p.rel() == dir || dir != contract && under(p.rel(), dir) })
}

func under(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

func (c *code) measure(ctx context.Context) (*shape, error) {
	if err := c.load(ctx); err != nil {
		return nil, err
	}
	s := &shape{}
	if err := c.exported(s); err != nil {
		return nil, err
	}
	for _, path := range slices.Sorted(maps.Keys(c.packages)) {
		if p := c.packages[path]; p.production() {
			if err := s.size(p); err != nil {
				return nil, err
			}
			if err := c.parameters(s, p); err != nil {
				return nil, err
			}
		}
	}
	slices.SortStableFunc(s.Packages, func(a, b packageSize) int { return b.Lines - a.Lines })
	slices.SortStableFunc(s.Parameters, func(a, b parameterList) int { return b.Count - a.Count })
	return s, nil
}

// load asks go what packages there are.
func (c *code) load(ctx context.Context) error {
	list, err := c.list(ctx, "-tags=e2e,occm,snapshot", "./...")
	if err != nil {
		return err
	}
	c.packages = map[string]*sources{}
	foreign := map[string]bool{}
	for _, p := range list {
		c.packages[p.ImportPath] = p
		for _, imp := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if !strings.HasPrefix(imp, module) && imp != "C" && imp != "unsafe" {
				foreign[imp] = true
			}
		}
	}
	var others []*sources
	if len(foreign) > 0 {
		if others, err = c.list(ctx, append([]string{"-deps", "-export"}, slices.Sorted(maps.Keys(foreign))...)...); err != nil {
			return err
		}
	}
	exports := map[string]string{}
	for _, p := range others {
		exports[p.ImportPath] = p.Export
	}
	c.fset, c.checked, c.used = token.NewFileSet(), map[string]*types.Package{}, map[string]bool{}
	c.calls, c.imposed = map[[2]string]bool{}, map[token.Position]bool{}
	c.foreign = importer.ForCompiler(c.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	return nil
}

func (c *code) list(ctx context.Context, args ...string) ([]*sources, error) {
	const fields = "ImportPath,Dir,Export,GoFiles,IgnoredGoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports"
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-json=" + fields}, args...)...) //nolint:gosec // packages of this module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")                                                // as the tests are built, so that nothing is compiled once more
	cmd.Dir = c.root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, stderr.String())
	}
	var all []*sources
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		p := &sources{}
		if err := dec.Decode(p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
}

// size adds a package; files that build tags leave out count.
func (s *shape) size(p *sources) error {
	size := packageSize{Package: p.rel()}
	for _, name := range slices.Concat(p.GoFiles, p.IgnoredGoFiles) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(p.Dir, name))
		if err != nil {
			return err
		}
		size.Files++
		size.Lines += bytes.Count(data, []byte("\n"))
	}
	if size.Files == 0 {
		return nil
	}
	s.Packages = append(s.Packages, size)
	s.Files, s.Lines = s.Files+size.Files, s.Lines+size.Lines
	if slices.ContainsFunc(rebuilt, func(dir string) bool { return under(size.Package, dir) }) {
		s.Rebuilt += size.Lines
	}
	return nil
}

// parameters finds the longest lists of a package.
func (c *code) parameters(s *shape, p *sources) error {
	files, err := c.parse(p.Dir, p.GoFiles)
	if err != nil {
		return err
	}
	see := func(name string, f *ast.FuncType) {
		l := parameterList{Function: p.rel() + "." + name, Count: parameterCount(f)}
		if l.Count > s.Longest.Count {
			s.Longest = l
		}
		if l.Count > mostParameters {
			s.Parameters = append(s.Parameters, l)
		}
	}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if c.imposed[c.fset.Position(n.Name.Pos())] {
					return true
				}
				name := n.Name.Name
				if n.Recv != nil {
					name = types.ExprString(n.Recv.List[0].Type) + "." + name
				}
				see(strings.TrimPrefix(name, "*"), n.Type)
			case *ast.TypeSpec:
				if i, ok := n.Type.(*ast.InterfaceType); ok {
					for _, m := range i.Methods.List {
						if f, ok := m.Type.(*ast.FuncType); ok {
							see(n.Name.Name+"."+m.Names[0].Name, f)
						}
					}
				}
			}
			return true
		})
	}
	return nil
}

func parameterCount(f *ast.FuncType) int {
	count := 0
	for i, field := range f.Params.List {
		if i == 0 && types.ExprString(field.Type) == "context.Context" {
			continue
		}
		count += max(1, len(field.Names))
	}
	return count
}

func (c *code) parse(dir string, names []string) ([]*ast.File, error) {
	var out []*ast.File
	for _, name := range names {
		f, err := parser.ParseFile(c.fset, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

// exported counts the names that packages export, and finds those that no other package uses.
func (c *code) exported(s *shape) error {
	for _, path := range slices.Sorted(maps.Keys(c.packages)) {
		p := c.packages[path]
		if _, err := c.Import(path); err != nil {
			return err
		}
		// Tests: what they use is known although some of it cannot be checked, as they see more of their own package.
		for _, names := range [][]string{slices.Concat(p.GoFiles, p.TestGoFiles), p.XTestGoFiles} {
			if _, _, err := c.check(p, names, func(error) {}); err != nil {
				return err
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(c.packages)) {
		s.Exported, s.Unnamed = s.Exported+len(c.names(path, false)), s.Unnamed+len(c.names(path, true))
	}
	told := map[types.Type]bool{}
	for path, p := range c.checked {
		for _, name := range p.Scope().Names() {
			if c.used[path+"."+name] {
				c.tell(p.Scope().Lookup(name).Type(), told)
			}
		}
	}
	for path, p := range c.checked {
		for _, name := range p.Scope().Names() { // the values of a type that is used
			if k, ok := p.Scope().Lookup(name).(*types.Const); ok {
				if t, ok := k.Type().(*types.Named); ok && t.Obj().Pkg() == p && c.used[path+"."+t.Obj().Name()] {
					c.used[path+"."+name] = true
				}
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(c.packages)) {
		for _, name := range c.names(path, true) {
			if c.packages[path].offered() {
				s.Offered = append(s.Offered, name)
			} else {
				s.Unused = append(s.Unused, name)
			}
		}
	}
	return nil
}

// names are the exported names of a package of production code, or those that nobody uses, as far as that is known.
func (c *code) names(path string, unused bool) []string {
	p, pkg := c.packages[path], c.checked[path]
	if !p.production() || pkg.Name() == "main" {
		return nil
	}
	var out []string
	for _, name := range pkg.Scope().Names() {
		if token.IsExported(name) && (!unused || !c.used[path+"."+name]) {
			out = append(out, p.rel()+"."+name)
		}
	}
	return out
}

// Import implements types.Importer.
func (c *code) Import(path string) (*types.Package, error) {
	p := c.packages[path]
	if p == nil {
		return c.foreign.Import(path)
	}
	if done := c.checked[path]; done != nil {
		return done, nil
	}
	var errs []error
	pkg, info, err := c.check(p, p.GoFiles, func(err error) { errs = append(errs, err) })
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	c.checked[path] = pkg
	c.follow(info)
	c.impose(pkg)
	return pkg, nil
}

// check checks files of a package and notes what they use of others.
func (c *code) check(p *sources, names []string, report func(error)) (*types.Package, *types.Info, error) {
	files, err := c.parse(p.Dir, names)
	if err != nil {
		return nil, nil, err
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: c, Error: report}
	pkg, _ := config.Check(p.ImportPath, c.fset, files, info) // its errors are reported
	for _, o := range info.Uses {
		// Package-level objects only: methods and fields go with their types.
		if o.Pkg() != nil && o.Pkg().Path() != p.ImportPath && o.Parent() == o.Pkg().Scope() {
			c.used[o.Pkg().Path()+"."+o.Name()] = true
		}
	}
	return pkg, info, nil
}

// follow notes which files name functions of others.
func (c *code) follow(info *types.Info) {
	file := func(pos token.Pos) string {
		rel, err := filepath.Rel(c.root, c.fset.Position(pos).Filename)
		if err != nil {
			return ""
		}
		return filepath.ToSlash(rel)
	}
	for id, o := range info.Uses {
		f, ok := o.(*types.Func)
		if !ok || f.Pkg() == nil || c.packages[f.Pkg().Path()] == nil {
			continue
		}
		if r := f.Signature().Recv(); r != nil && types.IsInterface(r.Type()) {
			continue
		}
		if from, to := file(id.Pos()), file(f.Origin().Pos()); from != to {
			c.calls[[2]string{from, to}] = true
		}
	}
}

// impose notes the methods that take the place of those of an embedded type of somebody else.
func (c *code) impose(pkg *types.Package) {
	for _, name := range pkg.Scope().Names() {
		n, ok := pkg.Scope().Lookup(name).Type().(*types.Named)
		if !ok {
			continue
		}
		s, ok := n.Underlying().(*types.Struct)
		for i := 0; ok && i < s.NumFields(); i++ {
			theirs, is := s.Field(i).Type().(*types.Named)
			if !s.Field(i).Embedded() || !is || theirs.Obj().Pkg() == nil || c.packages[theirs.Obj().Pkg().Path()] != nil {
				continue
			}
			for m := range n.Methods() {
				if o, _, _ := types.LookupFieldOrMethod(theirs, true, m.Pkg(), m.Name()); o != nil {
					c.imposed[c.fset.Position(m.Pos())] = true
				}
			}
		}
	}
}

// tell notes the names that are in a type, which are used where that is.
func (c *code) tell(t types.Type, told map[types.Type]bool) {
	if t == nil || told[t] {
		return
	}
	told[t] = true
	each := func(tuple *types.Tuple) {
		for v := range tuple.Variables() {
			c.tell(v.Type(), told)
		}
	}
	switch t := t.(type) {
	case *types.Alias:
		c.name(t.Obj())
		c.tell(t.Rhs(), told)
	case *types.Named:
		if p := t.Obj().Pkg(); p == nil || c.packages[p.Path()] == nil {
			return
		}
		c.name(t.Obj())
		c.tell(t.Underlying(), told)
		for a := range t.TypeArgs().Types() {
			c.tell(a, told)
		}
		for m := range t.Methods() {
			if m.Exported() {
				c.tell(m.Type(), told)
			}
		}
	case *types.Struct:
		for f := range t.Fields() {
			if f.Exported() || f.Embedded() {
				c.tell(f.Type(), told)
			}
		}
	case *types.Interface:
		for m := range t.Methods() {
			c.tell(m.Type(), told)
		}
	case *types.Signature:
		each(t.Params())
		each(t.Results())
	case *types.Map:
		c.tell(t.Key(), told)
		c.tell(t.Elem(), told)
	case interface{ Elem() types.Type }: // pointer, slice, array, channel
		c.tell(t.Elem(), told)
	}
}

func (c *code) name(o *types.TypeName) {
	if o.Pkg() != nil {
		c.used[o.Pkg().Path()+"."+o.Name()] = true
	}
}
