# rescue saves what a session holds, each object on its own.
dlsh -n -c 'x = tensor([1.5, 2]); n = 3; s = "text"; l = [1, [2.5, none]]; fn f(a) { return a }
net m { linear 2 }
m(zeros(1, 2));
rescue saved'
ls saved | sort
cat saved/values.json; echo
dlsh -n -c 'load("saved/x.safetensors").tensor
load("saved/m.safetensors").linear0.bias.shape'
dlsh -n -c 'rescue /proc/nowhere' || echo failed
