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

# only what cannot be written is left out; a record of tensors has a file of its own
dlsh -n -c 'deep = []; for i in range(1000) { deep = [deep] }
ring = record(n=1); ring.me = ring
weights = record(a=ones(2), b=zeros(3)); n = 5
rescue parts' 2>&1
cat parts/values.json; echo
dlsh -n -c 'load("parts/weights.safetensors").keys()'
