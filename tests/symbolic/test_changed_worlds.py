"""What a compiled function reads is changed between its calls: each is as eager code's.

A case is a setup, a function's body, and changes that are made one after the other; it runs in two worlds.
"""
import random

import numpy as np
import pytest
import torch

import jit
from tests.differential import execute

CASES = {}
OF_TENSORS = set(vars(torch.Tensor))


def case(name, setup, body, *changes):
    CASES[name] = setup, body, changes


IMPORTS = """
import collections, copy, dataclasses, enum, functools, itertools, math, operator, os, random, sys, types, weakref
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
torch.manual_seed(0)
x = torch.arange(6.).reshape(2, 3)
"""
case("bases", "class A:\n  def f(s): return 1\nclass B:\n  def f(s): return 2\nclass C(A): pass\no=C()", "return x*o.f()", "C.__bases__=(B,)")
case("klass", "class A:\n  k=1\nclass B:\n  k=2\no=A()", "return x*o.k", "o.__class__=B", "B.k=5")
case("newstored", "class A:\n  def __init__(s,*a): s.a=a\nclass B(A): pass\nclass C: pass\no=A", "return x+1, A(2).a, B(3).a, A().a, type(o()), type(C()).__name__", "A.__new__=lambda c,*a: object.__new__(c)", "del A.__new__", "A.__new__=object.__new__", "C.__new__=lambda c: 3", "del C.__new__")
case("newdeleted", "class A:\n  def __new__(c,*a): return object.__new__(c)\n  def __init__(s,*a): s.a=a\nclass C(A): pass\ndel A.__new__\nclass B(A): pass", "B()\ntry: return x, C(3)\nexcept TypeError as e: pass\ntry: return x, B(1)\nexcept TypeError as e: return x, str(e)", "A.__init__=object.__init__", "B.__new__=A.__new__", "del B.__new__")
case("newinframe", "class A:\n  def __init__(s,*a): s.a=a", "class B:\n  def __init__(s,*a): s.a=a\nfor c in (A,B):\n  c.__new__=lambda c,*a: object.__new__(c)\n  c(1)\n  del c.__new__\nout=[]\nfor c in (A,B,type('D',(A,),{}),type('E',(B,),{})):\n  try: out.append(c(1).a)\n  except TypeError as e: out.append(str(e))\nreturn x*2,out", "pass")
case("code", "def g(v): return v+1\ndef h(v): return v*7", "return g(x)", "g.__code__=h.__code__")
case("defaults", "def g(v,a=1): return v+a", "return g(x)", "g.__defaults__=(5,)", "g.__defaults__=(x,)")
case("kwdefaults", "def g(v,*,a=1): return v+a", "return g(x)", "g.__kwdefaults__['a']=5", "g.__kwdefaults__={'a':6}")
case("mutdef", "def g(v,a=[1]): a.append(len(a)); return v+sum(a)", "return g(x), len(g.__defaults__[0])", "pass", "g.__defaults__[0].clear()")
case("cell", "def mk():\n  n=1\n  def g(v): return v+n\n  def s(k):\n    nonlocal n\n    n=k\n  return g,s\ng,s=mk()", "return g(x)", "s(4)", "s(x)", "g.__closure__[0].cell_contents=9")
case("environ", "os.environ['WW']='1'", "return x*int(os.environ.get('WW','7'))", "os.environ['WW']='3'", "del os.environ['WW']")
case("dtype", "", "return torch.ones(2)+torch.tensor(1.5), torch.zeros(1).dtype", "torch.set_default_dtype(torch.float64)", "torch.set_default_dtype(torch.float32)")
case("gradmode", "w=torch.ones(3,requires_grad=True)", "return (x*w).requires_grad, torch.is_grad_enabled()", "torch.set_grad_enabled(False)", "torch.set_grad_enabled(True)")
case("shadow", "", "return x*len([1,2])", "len=lambda l: 10", "del len")
case("train", "m=nn.Sequential(nn.Linear(3,2),nn.BatchNorm1d(2),nn.Dropout(0.0))", "return m(x), m[1].running_mean.clone()", "m.eval()", "m[1].train()", "m[1].momentum=0.9", "m[1].track_running_stats=False")
case("hooks", "m=nn.Linear(3,2)\nlog=[]", "return m(x), len(log)", "h=m.register_forward_hook(lambda m,i,o: o*2)", "h2=m.register_forward_pre_hook(lambda m,i:(i[0]+1,))", "h.remove()", "import torch.nn.modules.module as M; hg=M.register_module_forward_hook(lambda m,i,o: log.append(1))", "hg.remove()")
case("param", "m=nn.Linear(3,2)", "return m(x), m.weight.requires_grad", "m.weight=nn.Parameter(torch.ones(2,3))", "m.weight.requires_grad_(False)", "m.weight.data=torch.zeros(2,3)", "m.bias=None", "m.weight.data.fill_(3)")
case("forward", "m=nn.Linear(3,2)", "return m(x)", "m.forward=lambda v: v*2", "del m.forward", "nn.Linear.extra=1", "m.in_features=99")
case("submod", "m=nn.Sequential(nn.ReLU())", "return m(x), len(m)", "m.append(nn.Tanh())", "m[0]=nn.Sigmoid()", "del m[1]", "m.add_module('z', nn.ReLU6())")
case("prop", "class A:\n  @property\n  def p(s): return 1\no=A()", "return x*o.p", "A.p=property(lambda s: 2)", "A.p=3", "del A.p; A.p=classmethod(lambda c: 4).__get__(None,A)()")
case("getattr", "class A:\n  def __getattr__(s,n): return 1\no=A()", "return x*o.q", "o.q=2", "del o.q", "A.q=3", "A.__getattribute__=lambda s,n: 8")
case("global", "k=1", "return x*k", "k=2", "k=2.0", "k=True", "k=x", "k=np.float32(2)", "k='a'", "k=None", "k=[1]")
case("nestglobal", "cfg={'a':{'b':[1,2]}}", "return x*cfg['a']['b'][-1]+len(cfg)", "cfg['a']['b'].append(5)", "cfg['z']=1", "cfg['a']={'b':(4,)}", "del cfg['a']")
case("enumc", "class E(enum.Enum):\n  A=1\n  B=2\ne=E.A", "return x*e.value, e is E.A, e.name, getattr(e,'n',0)", "e=E.B", "E.A.n=1; e=E.A","E.A.n=2")
case("dc", "@dataclasses.dataclass\nclass D:\n  a:int=1\n  b:list=dataclasses.field(default_factory=list)\nd=D()", "d.b.append(d.a); return x*d.a, list(d.b), D().a", "d.a=2", "D.a=9", "d=dataclasses.replace(d,a=4)")
case("func_attr", "def g(): return g.n\ng.n=1", "return x*g()", "g.n=2", "del g.n; g.n=3")
case("partial", "g=functools.partial(torch.add, alpha=2)", "return g(x,x)", "g=functools.partial(torch.add, alpha=3)", "g.keywords['alpha']=5")
case("module_attr", "mod=types.ModuleType('zz'); mod.f=lambda v: v+1", "return mod.f(x)", "mod.f=lambda v: v+2", "mod.f=torch.sin", "mod.__getattr__=lambda n: (lambda v: v*9); del mod.f")
case("torchpatch", "", "return torch.sin(x)", "old=torch.sin; torch.sin=lambda v: v+100", "torch.sin=old", "oldF=F.relu")
case("tensorpatch", "", "return x.sin()", "old=torch.Tensor.sin; torch.Tensor.sin=lambda s: s+100", "torch.Tensor.sin=old")
case("strsub", "class S(str):\n  def __eq__(s,o): return True\n  __hash__=str.__hash__\nk='a'", "return x*(2 if k=='b' else 3)", "k=S('a')", "k='b'")
case("argtypes", "a=1", "return x*a if isinstance(a,int) else x", "a=True", "a=np.int64(3)", "a=2**70", "a=torch.tensor(3)", "a=-1", "a=1.5")
case("lists", "l=[1,2]", "l.append(len(l)); return x*sum(l), l", "l=(1,)", "l=[5]; m=l", "l=collections.deque([1])", "class L(list): pass\nl=L([3])")
case("alias", "a=torch.ones(3); b=torch.ones(3)", "a.add_(1); return a+b", "b=a", "b=a[:2]; a=a[:2]", "b=torch.ones(3); a=b.view(3)", "a=torch.ones(1).expand(3)")
case("shape", "t=torch.ones(2,3)", "return t.sum(0), t.shape, t.stride()", "t=torch.ones(3,2).t()", "t=torch.ones(0,3)", "t=torch.ones(1,3)", "t.resize_(3,3).fill_(2)", "t=t.double()", "t=torch.ones(2,3).to_sparse().to_dense()")
case("weak", "class O: pass\no=O(); r=weakref.ref(o)", "return x*(2 if r() is None else 3)", "del o", "o=O(); r=weakref.ref(o)")
case("sysmod", "", "return x*(3 if 'zzmod' in sys.modules else 4)", "sys.modules['zzmod']=types.ModuleType('zzmod')", "del sys.modules['zzmod']")
case("mro_later", "class A: pass\nclass B(A): pass\no=B()", "return x*getattr(o,'v',1)", "A.v=2", "B.v=3", "o.v=4", "del B.v", "del o.v")
case("slots", "class A:\n  __slots__=('a','b')\no=A(); o.a=1", "return x*o.a, hasattr(o,'b')", "o.b=2", "o.a=5", "del o.b")
case("ops", "class A:\n  def __add__(s,o): return o*2\no=A()", "return o+x", "A.__add__=lambda s,o: o*3", "A.__radd__=lambda s,o: 1", "del A.__add__; A.__add__=lambda s,o: o")
case("len", "class A:\n  def __len__(s): return 1\no=A()", "return x if o else -x", "A.__bool__=lambda s: False", "del A.__bool__; A.__len__=lambda s: 0")
case("call", "class A:\n  def __call__(s,v): return v+1\no=A()", "return o(x)", "A.__call__=lambda s,v: v+2", "o.__call__=lambda v: v+9")
case("iterc", "class A:\n  def __iter__(s): return iter([1,2])\no=A()", "return [x*i for i in o]", "A.__iter__=lambda s: iter(range(3))", "A.__iter__=None")
case("eqhash", "class K:\n  def __init__(s,v): s.v=v\n  def __eq__(s,o): return s.v==o.v\n  def __hash__(s): return 1\nd={K(1):10,K(2):20}; k=K(2)", "return x*d[k]", "k.v=1", "d[K(1)]=11", "K.__hash__=lambda s: s.v")
case("sortk", "key=lambda v: v\nl=[3,1,2]", "return [x*v for v in sorted(l,key=key)]", "key=lambda v: -v", "key=None", "l.sort()")
case("determ", "", "return torch.are_deterministic_algorithms_enabled(), x.cumsum(0)", "torch.use_deterministic_algorithms(True)", "torch.use_deterministic_algorithms(False)")
case("func_mode", "", "return x.sin()+1", "from torch.overrides import TorchFunctionMode\nclass M(TorchFunctionMode):\n  def __torch_function__(s,f,t,a=(),k=None): return f(*a,**(k or {})) if f is not torch.Tensor.sin else a[0]*5\nm=M(); m.__enter__()", "m.__exit__(None,None,None)")
case("instcheck", "class Meta(type):\n  def __instancecheck__(c,o): return True\nclass A(metaclass=Meta): pass", "return x*(1 if isinstance(3,A) else 2)", "Meta.__instancecheck__=lambda c,o: False", "del Meta.__instancecheck__")
case("abc", "import abc\nclass A(abc.ABC): pass\nclass B: pass\no=B()", "return x*(1 if isinstance(o,A) else 2)", "A.register(B)")
case("super", "class A:\n  def f(s): return 1\nclass B(A):\n  def f(s): return super().f()+1\no=B()", "return x*o.f()", "A.f=lambda s: 5", "class Z:\n  def f(s): return 50\nB.__bases__=(Z,)")
case("desc", "class D:\n  def __get__(s,i,o): return 1\nclass A: a=D()\no=A()", "return x*o.a", "o.__dict__['a']=2", "D.__set__=lambda s,i,v: None", "del D.__set__")
case("dictorder", "d={'a':1,'b':2}", "return [x*v for v in d.values()], list(d)", "d['a']=d.pop('a')", "d=dict(reversed(d.items()))", "d=collections.OrderedDict(d); d.move_to_end('a')")
case("nt", "N=collections.namedtuple('N','a b')\nn=N(1,2)", "return x*n.a, n._replace(b=3), n", "n=N(2,2)", "N.a=property(lambda s: 8)")
case("strides_arg", "t=torch.arange(6.).view(2,3)", "return t.view(-1)*2", "t=t.t().contiguous().t()", "t=torch.arange(6.).view(2,3)")
case("complexnum", "k=1.0", "return x*k, k", "k=-0.0", "k=float('nan')", "k=float('inf')", "k=1e400", "k=0.0")
case("optgroups", "w=nn.Parameter(torch.ones(3)); o=torch.optim.SGD([w],lr=0.1)", "w.grad=x[0].clone(); o.step(); return w.detach().clone()", "o.param_groups[0]['lr']=1.0", "o.param_groups[0]['momentum']=0.5", "o.param_groups[0]['weight_decay']=0.1", "o.param_groups[0]['nesterov']=True", "o.state.clear()", "w2=nn.Parameter(torch.ones(3)); o.add_param_group({'params':[w2],'lr':2.0})")
case("matmulprec", "", "return torch.get_float32_matmul_precision(), x@x.t()", "torch.set_float32_matmul_precision('medium')", "torch.set_float32_matmul_precision('highest')")
case("cachefn", "@functools.lru_cache\ndef g(n): return n+len(L)\nL=[1]", "return x*g(1), g.cache_info()", "L.append(2)", "g.cache_clear()", "g.__wrapped__.__code__=(lambda n: n*100).__code__; g.cache_clear()")
case("gen_state", "def gg():\n  n=0\n  while True:\n    n+=1; yield n\ng=gg()", "return x*next(g)", "next(g)", "g=gg()", "g.close()")
case("it_state", "it=iter([1,2,3,4,5,6,7])", "return x*next(it,50)", "next(it)", "it=iter(())", "it=zip([1,2],[3,4]); it=map(sum,it)")
case("cls_dict", "class A:\n  tbl={}\n  n=0\n  def __init__(s): type(s).n+=1; s.tbl[s.n]=s.n", "A(); return x*A.n, dict(A.tbl)", "A.n=10", "A.tbl={}")
case("fstr", "k=3", "return f'{k:>{w}}', x*k", "w=5", "w=2; k=4")
case("excs", "class E(Exception): pass\nT=E", "try: raise E('a')\nexcept T as e: return x*2, str(e)\nexcept Exception: return x*3", "T=ValueError", "T=(ValueError,E)", "E.__str__=lambda s: 'zz'")
case("ctxm", "class C:\n  def __enter__(s): return 1\n  def __exit__(s,*a): return True\nc=C()", "with c as v: x.foo\nreturn x*v", "C.__exit__=lambda s,*a: False", "C.__enter__=lambda s: 5; C.__exit__=lambda s,*a: True")
case("frozen", "s=frozenset([1,2])", "return x*len(s), 3 in s", "s=s|{3}", "s=set(s); s.discard(1)")
case("bigloop", "n=3", "y=x\nfor i in range(n): y=y+i\nreturn y", "n=0", "n=5", "n=-1", "n=True")
case("np", "a=np.arange(3)", "return x*torch.from_numpy(a), a.sum()", "a[0]=9", "a=a.astype(np.float32)", "a=a[::-1].copy()", "a.flags.writeable=False")
case("tattr", "t=torch.ones(3); t.tag=1", "return t*t.tag", "t.tag=2", "del t.tag; t.tag=3", "t.grad=torch.ones(3)")
case("reqgrad", "t=torch.ones(3)", "y=(t*2).sum()\nif t.requires_grad: y.backward()\nreturn y.detach(), t.grad", "t.requires_grad_()", "t.grad=None", "t.requires_grad_(False)")
case("numthreads", "", "return x*torch.get_num_threads()", "torch.set_num_threads(2)", "torch.set_num_threads(1)")
case("device", "", "return torch.zeros(2).device.type, torch.get_default_device().type", "torch.set_default_device('meta')", "torch.set_default_device('cpu')", "torch.set_default_device(None)")
case("autocast", "", "return (x@x.t()).dtype, torch.is_autocast_enabled('cpu')", "ac=torch.autocast('cpu',dtype=torch.bfloat16); ac.__enter__()", "ac.__exit__(None,None,None)")
case("anomaly", "", "return torch.is_anomaly_enabled()", "torch.autograd.set_detect_anomaly(True)", "torch.autograd.set_detect_anomaly(False)")
case("inference", "", "return (x*2).is_inference(), torch.is_inference_mode_enabled()", "im=torch.inference_mode(); im.__enter__()", "im.__exit__(None,None,None)")
case("printopt", "", "return f'{x}', str(x)", "torch.set_printoptions(precision=1)", "torch.set_printoptions(profile='default')")
case("nan", "", "return x/0, torch.isnan(x/x)", "x=-x", "x=x.double()", "x=x.to(torch.int32)", "x=x.bool()", "x=x.to(torch.complex64)")
case("flags", "", "return sys.getrecursionlimit()>10**4, sys.maxsize, sys.version_info>=(3,11), __debug__", "old=sys.getrecursionlimit(); sys.setrecursionlimit(20000)", "sys.setrecursionlimit(old)")
case("module_level", "m=nn.Linear(3,3)\nm.k=2", "return m(x)*m.k if m.training else m(x)", "m.k=3", "m.eval()", "m.k=torch.tensor(4.)", "m.register_buffer('k2', torch.ones(3)); m.k=m.k2", "m.double(); x=x.double()")
case("buffers", "m=nn.Module(); m.register_buffer('b', torch.ones(3))", "m.b.add_(1); return x*m.b", "m.b=torch.zeros(3)", "m.b=None if False else torch.full((3,),5.)", "m.register_buffer('b', torch.ones(1))", "m._buffers['b']=torch.ones(3)*9", "m.b.resize_(3).zero_()")
case("moddict", "m=nn.ModuleDict({'a':nn.ReLU(),'b':nn.Tanh()})", "return [m[k](x) for k in m], list(m)", "m['c']=nn.Sigmoid()", "m.pop('a')", "m.update({'b': nn.SiLU()})", "m.clear()")
case("paramlist", "m=nn.ParameterList([nn.Parameter(torch.ones(3))])", "return sum((x*p).sum() for p in m), len(m)", "m.append(nn.Parameter(torch.ones(3)*2))", "m[0]=nn.Parameter(torch.zeros(3))", "m[0].requires_grad_(False)")
case("weightnorm", "m=nn.utils.parametrizations.weight_norm(nn.Linear(3,2))", "return m(x), type(m).__name__", "nn.utils.parametrize.remove_parametrizations(m,'weight')", "nn.utils.parametrizations.spectral_norm(m)", "m.eval()")
case("subclassm", "class M(nn.Module):\n  def __init__(s):\n    super().__init__(); s.l=nn.Linear(3,3)\n  def forward(s,v): return s.l(v)+1\nm=M()", "return m(x)", "M.forward=lambda s,v: v*3", "m.l=nn.Identity(); M.forward=lambda s,v: s.l(v)", "M.__call__=lambda s,v: v-7", "del M.__call__")
case("modgetattr", "class M(nn.Module):\n  def forward(s,v): return v*s.zz\n  def __getattr__(s,n): return 5 if n=='zz' else super().__getattr__(n)\nm=M()", "return m(x)", "m.zz=6", "del m.zz", "M.zz=7")
case("fwdkw", "def g(v, *a, k=1, **kw): return v*k+len(a)+sum(kw.values())\na=(1,); kw={'k':2}", "return g(x,*a,**kw)", "a=(1,2)", "kw={'k':2,'z':3}", "kw={}", "a=[4]", "kw={'z':x}")
case("listfn", "fs=[lambda v: v+1, torch.sin]", "y=x\nfor f in fs: y=f(y)\nreturn y", "fs.append(lambda v: v*2)", "fs[0]=torch.cos", "fs.reverse()", "fs[:]=[]")
case("bound", "class A:\n  def __init__(s,k): s.k=k\n  def f(s,v): return v*s.k\na=A(2); f_=a.f", "return f_(x)", "a.k=3", "f_=A(4).f", "A.f=lambda s,v: v", "f_=functools.partial(A.f, A(8))")
case("nestedclosure", "def mk(k):\n  def a():\n    def b(): return k\n    return b\n  return a\ng=mk(2)", "return x*g()()", "g=mk(3)", "g=mk(x)", "g.__closure__[0].cell_contents=11")
case("decor", "def dec(k):\n  def d(f):\n    @functools.wraps(f)\n    def w(*a): return f(*a)*k\n    return w\n  return d\n@dec(2)\ndef g(v): return v+1", "return g(x), g.__name__", "g=dec(3)(g)", "g=g.__wrapped__", "g.__name__='zz'")
case("contextvar", "import contextvars\nc=contextvars.ContextVar('c', default=1)", "return x*c.get()", "t=c.set(3)", "c.reset(t)", "c.set(x)")
case("loglevel", "import logging\nL=logging.getLogger('zz'); L.addHandler(logging.NullHandler()); L.propagate=False", "return x*(2 if L.isEnabledFor(logging.DEBUG) else 3), L.getEffectiveLevel()", "L.setLevel(logging.DEBUG)", "logging.disable(logging.CRITICAL)", "logging.disable(logging.NOTSET); L.setLevel(logging.NOTSET)")
case("defaultdict", "d=collections.defaultdict(lambda: 2)", "return x*d['a'], len(d)", "d['a']=5", "d.default_factory=lambda: 9; del d['a']", "d.default_factory=None", "del d['a']")
case("counter", "c=collections.Counter('aab')", "c['z']+=1; return x*c['a'], c.most_common(1), c['z']", "c.update('bbbb')", "c.clear()", "c=collections.Counter()")
case("deque", "d=collections.deque([1,2,3],maxlen=3)", "d.append(len(d)); return x*d[0], list(d)", "d.rotate(1)", "d=collections.deque(d)", "d.clear()")
case("userdict", "class U(collections.UserDict):\n  def __missing__(s,k): return 4\nd=U({'a':1})", "return x*d['a']+d['q']", "d['a']=2", "d['q']=1", "U.__missing__=lambda s,k: 8; del d['q']", "d.data={'a':3}")
case("chainmap", "a={'k':1}; b={'k':2,'j':3}; c=collections.ChainMap(a,b)", "return x*c['k']+c['j']", "a.clear()", "b['j']=9", "c.maps.insert(0,{'k':7})", "c=c.new_child({'j':0})")
case("mapproxy", "d={'a':1}; p=types.MappingProxyType(d)", "return x*p['a'], len(p)", "d['a']=2", "d['b']=1", "p=types.MappingProxyType({'a':x})")
case("nspace", "n=types.SimpleNamespace(a=1)", "return x*n.a, hasattr(n,'b')", "n.a=2", "n.b=1", "n=types.SimpleNamespace(a=x)", "del n.a; n.a=5")
case("typeddefault", "class C:\n  a: int = 1\nc=C()", "return x*c.a, list(C.__annotations__)", "C.__annotations__['z']=int", "C.a=2", "C.__annotations__={}")
case("docs", "def g(): 'doc'\nclass A: 'adoc'", "return g.__doc__, A.__doc__, g.__name__, A.__qualname__", "g.__doc__='new'", "A.__doc__='n2'", "g.__name__='h'; A.__qualname__='Q'; A.__name__='W'")
case("intsub", "class I(int):\n  def __mul__(s,o): return 100\n  __rmul__=__mul__\nk=2", "return x.sum()*k, k*3", "k=I(2)", "k=2", "I.__mul__=lambda s,o: 50; k=I(3)")
case("floatsub", "class I(float): pass\nk=2.0", "return x*k, type(k).__name__, k+1", "k=I(2.0)", "I.__add__=lambda s,o: 9", "k=3.0")
case("tuplesub", "class T(tuple):\n  def __getitem__(s,i): return 9\nt=(1,2)", "return x*t[0], len(t), [*t]", "t=T((1,2))", "T.__iter__=lambda s: iter([5])", "T.__len__=lambda s: 7", "t=(3,)")
case("dictsub", "class D(dict):\n  def __getitem__(s,k): return 9\nd={'a':1}", "return x*d['a'], d.get('a'), 'a' in d, list(d.items())", "d=D(a=2)", "D.__contains__=lambda s,k: False", "D.items=lambda s: [(1,2)]", "D.get=lambda s,k: 77")
case("listsub", "class L(list):\n  def __len__(s): return 9\nl=[1]", "return x*len(l), bool(l), l[0], sum(l)", "l=L([2])", "L.__bool__=lambda s: False", "L.__iter__=lambda s: iter([4,4])", "L.__getitem__=lambda s,i: 6")
case("cmp", "class A:\n  def __init__(s,v): s.v=v\n  def __lt__(s,o): return s.v<o.v\na=A(1); b=A(2)", "return x*(1 if a<b else 2), max(a,b).v, sorted([b,a])[0].v", "a.v=5", "A.__gt__=lambda s,o: True", "A.__lt__=lambda s,o: NotImplemented", "b.__class__=type('B',(A,),{'__lt__':lambda s,o: True})")
case("inplace", "class A:\n  def __init__(s): s.n=0\n  def __iadd__(s,o): s.n+=1; return s\na=A()", "global a\na+=1\nreturn x*a.n if isinstance(a,A) else x*a", "A.__iadd__=lambda s,o: s", "del A.__iadd__; A.__add__=lambda s,o: 5", "a=A(); A.__add__=lambda s,o: 7")
case("callable_", "class A: pass\na=A()", "return x*(1 if callable(a) else 2), callable(A)", "A.__call__=lambda s: 1", "del A.__call__", "a.__call__=lambda: 1")
case("hasattr_", "class A: pass\na=A()", "return [hasattr(a,n) for n in ('p','q','__len__')]", "a.p=1", "A.q=2", "A.__len__=lambda s: 3", "del a.p", "A.__getattr__=lambda s,n: 1")
case("vars_", "class A: pass\na=A(); a.p=1", "return sorted(vars(a).items()), [k for k in dir(a) if not k.startswith('__')]", "a.q=2", "A.r=3", "a.__dict__.update(z=1)", "a.__dict__={'w':1}")
case("typeeq", "class A: pass\nclass B(A): pass\no=A()", "return x*(1 if type(o) is A else 2 if isinstance(o,A) else 3)", "o=B()", "o=5", "A=type('A',(),{})", "o=A()")
case("numpyscal", "k=np.float32(2)", "return x*k, k.dtype, k+1", "k=np.float64(2)", "k=np.int8(3)", "k=np.bool_(True)", "k=2", "k=np.float32(2)")
case("nparr", "a=np.ones((2,3))", "a+=1; return torch.as_tensor(a)*x, a.shape", "a=np.ones((2,3),dtype=np.float32)", "a=np.asfortranarray(a)", "a=np.ones((1,3))", "a=a[:, ::-1]")
case("tensorlist", "l=[torch.ones(3), torch.zeros(3)]", "l.append(l[0]+l[-1]); return torch.stack(l).sum(0)", "l.pop(0)", "l[0]=l[1]", "l=[l[0]]", "l[0].requires_grad_()")
case("expandarg", "t=torch.ones(3).expand(2,3)", "return x+t, (x+t).stride()", "t=torch.ones(2,1).expand(2,3)", "t=torch.ones(3,2).t()", "t=torch.ones(2,3)[:, :]", "t=torch.ones(4,3)[::2]")
case("leaf", "w=torch.ones(3,requires_grad=True)", "y=(x*w).sum(); y.backward(); return w.grad.clone()", "w.grad=None", "w.register_hook(lambda g: g*2)", "w=torch.zeros(3,requires_grad=True)", "w.register_post_accumulate_grad_hook(lambda p: p.grad.zero_())", "w=w*1; w.retain_grad()")
case("zero_", "x=torch.zeros(0,3)", "return x.sum(), x.shape, x.max(1).values if len(x) else None", "x=torch.ones(1,3)", "x=torch.ones(2,3)", "x=torch.zeros(0,3)")
case("scalarargs", "k=1", "return torch.full((2,),k), torch.arange(k), x.sum()+k", "k=2", "k=2.5", "k=True", "k=0")
case("strfmt", "k=3.14159; s='.2f'", "return format(k,s), f'{k:{s}}', '%.1f'%k", "k=2.0", "s='.3e'", "k=10", "k=True; s=''")
case("setorder", "s={1,2,3}", "return sorted(s), x*len(s), 2 in s", "s.discard(2)", "s.add(9)", "s=frozenset(s)", "s={'a'}")
case("slicev", "i=0; j=2", "return x[:, i:j], [1,2,3,4][i:j], 'abcd'[i:j]", "j=3", "i=-2; j=None", "i=None", "i=2; j=1", "i=True")
case("rangev", "r=range(3)", "return [x*i for i in r], len(r), r[-1] if r else None", "r=range(2,8,3)", "r=range(0)", "r=range(5,0,-2)", "r=[7]")
case("nones", "a=None", "return x if a is None else x*a, a or 2, a == None", "a=0", "a=2", "a=''", "a=x")
case("exc_inst", "e=ValueError('a')", "try: raise e\nexcept ValueError as q: return x*len(q.args), str(q), q is e", "e=ValueError('a','b')", "e.args=('z',)", "e=KeyError('k')", "e=ValueError()")
case("warns", "import warnings; warnings.simplefilter('ignore')", "warnings.warn('hey'); return x*2", "warnings.simplefilter('error')", "warnings.simplefilter('ignore')")
case("profilehook", "m=nn.Linear(3,2); n=[]", "return m(x)", "h=m.weight.register_hook(lambda g: g)", "m.register_full_backward_hook(lambda *a: None)", "m.register_state_dict_pre_hook(lambda *a: None)", "m._forward_hooks.clear()")
case("optstate", "w=nn.Parameter(torch.ones(3)); o=torch.optim.Adam([w],lr=0.1)", "w.grad=x[1].clone(); o.step(); return w.detach().clone(), len(o.state)", "o.load_state_dict(o.state_dict())", "o.param_groups[0]['betas']=(0.5,0.5)", "o.param_groups[0]['amsgrad']=True", "o.state[w]['step']=torch.tensor(100.)", "o.param_groups[0]['maximize']=True")


def replaced(target, by, body, setup=""):
    """Something is put in the place of a class's or a module's own, and that put back."""
    case(target, f"{setup}\nbefore = {target}", body, f"{target} = {by}", f"{target} = before")


replaced('F.relu', 'lambda v, inplace=False: v*100', 'return m(x)', 'm=nn.ReLU()')
replaced('F.linear', 'lambda i,w,b=None: i*100', 'return m(x)', 'm=nn.Linear(3,2)')
replaced('torch.relu', 'lambda v: v*100', 'return torch.relu(x)')
replaced('nn.Linear.forward', 'lambda s,v: v*100', 'return m(x)', 'm=nn.Linear(3,2)')
replaced('nn.Module.__call__', 'lambda s,v: v*100', 'return m(x)', 'm=nn.Linear(3,2)')
replaced('nn.Module._call_impl', 'lambda s,v: v*100', 'return m(x)', 'm=nn.Linear(3,2)')
replaced('nn.Module.__getattr__', "lambda s,n: (s.__dict__['_parameters'].get(n) if n in s.__dict__['_parameters'] else 3)", 'return m.weight.sum() if isinstance(m.zz,int) else 0', "m=nn.Linear(3,2)\nm.register_buffer('zz',torch.ones(1))")
replaced('nn.Module.parameters', 'lambda s, recurse=True: iter([])', 'return len(list(m.parameters()))', 'm=nn.Linear(3,2)')
replaced('torch.optim.SGD.step', 'lambda s, closure=None: 7', 'w.grad=torch.ones(3); return o.step(), w.detach().clone()', 'w=nn.Parameter(torch.ones(3)); o=torch.optim.SGD([w],lr=0.1)')
replaced('torch.Tensor.backward', 'lambda s, *a, **k: None', 'w.grad=None; (w*x).sum().backward(); return w.grad', 'w=torch.ones(3,requires_grad=True)')
replaced('torch.autograd.grad', 'lambda *a, **k: (3,)', 'return torch.autograd.grad((w*x).sum(),w)', 'w=torch.ones(3,requires_grad=True)')
replaced('builtins.len', 'lambda v: 77', 'return x*len([1])', 'import builtins')
replaced('builtins.sum', 'lambda v: 77', 'return x*sum([1])', 'import builtins')
replaced('math.sqrt', 'lambda v: 77', 'return x*math.sqrt(4)')
replaced('random.random', 'lambda: 0.5', 'return x*random.random()')
replaced('np.sum', 'lambda a: 77', 'return x*np.sum(a)', 'a=np.ones(3)')
replaced('torch.Tensor.__add__', 'lambda s,o: s*100', 'return x+1')
replaced('torch.Tensor.__rsub__', 'lambda s,o: s*100', 'return 1-x')
replaced('torch.Tensor.__getitem__', 'lambda s,i: s*100', 'return x[0]')
replaced('torch.Tensor.__len__', 'lambda s: 77', 'return x*len(x)')
replaced('torch.Tensor.__iter__', 'lambda s: iter([1,2])', 'return [v*2 for v in x]')
replaced('torch.Tensor.__contains__', 'lambda s,o: True', 'return torch.ones(2) if 3 in [1,2,3] else x')
replaced('torch.Tensor.split', 'lambda s,n,dim=0: 77', 'return x.split(1)')
replaced('torch.Tensor.norm', 'lambda s,*a,**k: 77', 'return x.norm()')
replaced('torch.Tensor.shape', 'property(lambda s: (7,7))', 'return x.shape')
replaced('torch.Tensor.T', 'property(lambda s: s*100)', 'return x.T')
replaced('torch.Tensor.dim', 'lambda s: 77', 'return x.dim(), x.ndim')
replaced('torch.Tensor.size', 'lambda s, *a: 77', 'return x.size(0)')
replaced('torch.Tensor.item', 'lambda s: 77', 'return x.sum().item()')
replaced('torch.Tensor.tolist', 'lambda s: [77]', 'return x.tolist()')
replaced('torch.Tensor.numel', 'lambda s: 77', 'return x.numel()')
replaced('torch.Tensor.detach', 'lambda s: s*100', 'return x.detach()')
replaced('torch.Tensor.to', 'lambda s,*a: s*100', 'return x.to(torch.float32)')
replaced('torch.Tensor.requires_grad_', 'lambda s,*a: s*100', 'return x.clone().requires_grad_().detach()')
replaced('torch.Tensor.is_floating_point', 'lambda s: 77', 'return x.is_floating_point()')
replaced('torch.is_tensor', 'lambda v: 77', 'return torch.is_tensor(x)')
replaced('torch.zeros', 'lambda *a, **k: 77', 'return torch.zeros(2)')
replaced('torch.tensor', 'lambda *a, **k: 77', 'return torch.tensor([1,2])')
replaced('torch.manual_seed', 'lambda *a: None', 'torch.manual_seed(1); return torch.rand(1)')
replaced('contextlib.suppress.__exit__', 'lambda s,*a: False', "with contextlib.suppress(ValueError): raise ValueError('q')\nreturn 1", 'import contextlib')
replaced('collections.Counter.most_common', 'lambda s,n=None: 77', "return collections.Counter('aab').most_common(1)")
replaced('collections.Counter.update', 'lambda s,*a: None', "c=collections.Counter(); c.update('aa'); return dict(c)")
replaced('copy.deepcopy', 'lambda v: 77', 'return copy.deepcopy([1])')
replaced('functools.partial', 'lambda *a, **k: (lambda *b: 77)', "return functools.partial(int,'3')()")
replaced('functools.reduce', 'lambda *a: 77', 'return functools.reduce(operator.add,[1,2])')
replaced('dataclasses.fields', 'lambda c: [77]', 'return dataclasses.fields(D)', '@dataclasses.dataclass\nclass D: a:int=1')
replaced('D.__init__', "lambda s, a=5: setattr(s,'a',77)", 'return x*D().a', '@dataclasses.dataclass\nclass D: a:int=1')
replaced('D.__eq__', 'lambda s, o: 77', 'return D()==D()', '@dataclasses.dataclass\nclass D: a:int=1')
replaced('D.__repr__', "lambda s: '77'", "return repr(D()), f'{D()}'", '@dataclasses.dataclass\nclass D: a:int=1')
replaced('N.__new__', 'lambda c,*a: tuple.__new__(c,(7,7))', 'return N(1,2)', "N=collections.namedtuple('N','a b')")
replaced('N._replace', 'lambda s,**k: 77', 'return N(1,2)._replace(a=3)', "N=collections.namedtuple('N','a b')")
replaced('Q.__str__', "lambda s: '77'", "try: raise Q('a')\nexcept Q as e: return str(e)", 'class Q(Exception): pass\nQ.__str__=Q.__str__')
replaced('A.__deepcopy__', 'lambda s,m: 77', 'return copy.deepcopy(a)', 'class A:\n  def __deepcopy__(s,m): return 1\na=A()')
replaced('A.__copy__', 'lambda s: 77', 'return copy.copy(a)', 'class A:\n  def __copy__(s): return 1\na=A()')
replaced('A.__format__', "lambda s,f: '77'", "return f'{a:>3}'", "class A:\n  def __format__(s,f): return 'z'\na=A()")
replaced('A.__index__', 'lambda s: 2', 'return [1,2,3][a], x[:, a], list(range(a))', 'class A:\n  def __index__(s): return 1\na=A()')
replaced('A.__float__', 'lambda s: 2.0', 'return float(a)*x', 'class A:\n  def __float__(s): return 1.0\na=A()')
replaced('A.__torch_function__', 'classmethod(lambda c,f,t,a=(),k=None: 77)', 'return torch.add(x,a)', 'class A:\n  @classmethod\n  def __torch_function__(c,f,t,a=(),k=None): return 5\na=A()')
replaced('A.__array__', 'lambda s,*b,**k: np.ones(2)', 'return np.asarray(a).shape', 'class A:\n  def __array__(s,*b,**k): return np.zeros(3)\na=A()')
replaced('A.__getattribute__', 'lambda s,n: 77', 'return a.q', 'class A:\n  q=1\na=A()')
replaced('A.__init_subclass__', "classmethod(lambda c: setattr(c,'z',77))", "class B(A): pass\nreturn getattr(B,'z',0)", 'class A:\n  def __init_subclass__(c): c.z=1')
replaced('A.__class_getitem__', 'classmethod(lambda c,i: 77)', 'return A[3]', 'class A:\n  def __class_getitem__(c,i): return 1')
replaced('A.__set_name__', "lambda s,o,n: setattr(s,'n',77)", 'class B: q=A()\nreturn B.q.n', 'class A:\n  def __set_name__(s,o,n): s.n=n')
replaced('A.__match_args__', "('b','a')", 'match a:\n  case A(p,q): return p,q', "class A:\n  __match_args__=('a','b')\na=A(); a.a=1; a.b=2")
replaced('A.__hash__', 'lambda s: 77', 'return len({a,b})', 'class A:\n  def __hash__(s): return 1\n  def __eq__(s,o): return True\na=A(); b=A()')
replaced('A.__exit__', 'lambda s,*a: True', "with a: raise ValueError('q')\nreturn 5", 'class A:\n  def __enter__(s): return s\n  def __exit__(s,*a): return False\na=A()')
replaced('A.__await__', 'lambda s: iter([])', 'async def f(): return await a\ntry: f().send(None)\nexcept StopIteration as e: return e.value', 'class A:\n  def __await__(s): return 5; yield\na=A()')
replaced('torch.distributions.Normal.rsample', 'lambda s,sample_shape=torch.Size(): 77', 'return torch.distributions.Normal(0.,1.).rsample()')
replaced('torch.distributions.Categorical.log_prob', 'lambda s,v: 77', 'return torch.distributions.Categorical(logits=torch.zeros(3)).log_prob(torch.tensor(1))')
replaced('torch.nn.utils.clip_grad_norm_', 'lambda *a, **k: 77', 'w.grad=torch.ones(3); return torch.nn.utils.clip_grad_norm_([w],1.0)', 'w=nn.Parameter(torch.ones(3))')
replaced('torch.optim.lr_scheduler.StepLR.get_lr', 'lambda s: [0.77]', "o.step(); s.step(); return o.param_groups[0]['lr']", 'w=nn.Parameter(torch.ones(3)); o=torch.optim.SGD([w],lr=0.1); s=torch.optim.lr_scheduler.StepLR(o,1)')
replaced('Fn.forward', 'staticmethod(lambda c,v: v*100)', 'return Fn.apply(x)', 'class Fn(torch.autograd.Function):\n  @staticmethod\n  def forward(c,v): return v*2\n  @staticmethod\n  def backward(c,g): return g*2')
replaced('Fn.backward', 'staticmethod(lambda c,g: g*100)', 'w=torch.ones(3,requires_grad=True); Fn.apply(w).sum().backward(); return w.grad', 'class Fn(torch.autograd.Function):\n  @staticmethod\n  def forward(c,v): return v*2\n  @staticmethod\n  def backward(c,g): return g*2')


def seen(value):
    """What is compared of a result."""
    if isinstance(value, torch.Tensor):
        return value.dtype, tuple(value.shape), value.stride(), value.requires_grad, repr(value.detach())
    if isinstance(value, (tuple, list)):
        return type(value).__name__, [seen(each) for each in value]
    if isinstance(value, dict):
        return type(value).__name__, [(seen(key), seen(each)) for key, each in value.items()]
    return type(value).__name__, repr(value)


def lives(name, wrap, calls):
    """What the calls give, `calls` of them after each change."""
    setup, body, changes = CASES[name]
    world = {"__name__": "world"}
    random.seed(0)
    np.random.seed(0)
    execute(IMPORTS + setup, world)
    execute("def f(x):\n" + "\n".join("  " + line for line in body.split("\n")), world)
    function, found = wrap(world["f"]), []
    for change in ("pass", *changes, "pass"):
        execute(change, world)
        for _ in range(calls):
            try:
                found.append(seen(function(world["x"])))
            except Exception as error:
                found.append((type(error).__name__, str(error)))
    return found


@pytest.fixture
def as_it_was():
    """Some cases change torch itself."""
    yield
    torch.set_default_dtype(torch.float32)
    torch.set_grad_enabled(True)
    torch.set_default_device(None)
    torch.set_num_threads(1)
    for name in set(vars(torch.Tensor)) - OF_TENSORS:
        delattr(torch.Tensor, name)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("backend", ["eager", "default"])
@pytest.mark.parametrize("name", CASES)
def test_changes_are_seen(name, backend, as_it_was):
    for calls in (1, 2):
        eager = lives(name, lambda f: f, calls)
        assert lives(name, lambda f: jit.compile(f, backend=backend), calls) == eager
