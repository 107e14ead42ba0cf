"""The nets of the training benchmarks in PyTorch, by the names of bench/gpu_train.c."""
from torch import nn


class Residual(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return x + self.inner(x)


def block():
    return [Residual(nn.Sequential(nn.Linear(100, 50), nn.BatchNorm1d(50), nn.ReLU(), nn.Dropout(0.1),
                                   nn.Linear(50, 100), nn.BatchNorm1d(100))), nn.ReLU()]


class Down(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.inner = nn.Sequential(*pair(a, b, 2))
        self.beside = nn.Sequential(nn.Conv2d(a, b, 1, 2, bias=False), nn.BatchNorm2d(b))

    def forward(self, x):
        return self.inner(x) + self.beside(x)


def pair(a, b, stride):
    return [nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU(),
            nn.Conv2d(b, b, 3, 1, 1, bias=False), nn.BatchNorm2d(b)]


def same(c):
    return [Residual(nn.Sequential(*pair(c, c, 1))), nn.ReLU()]


def half(c):
    return [Down(c // 2, c), nn.ReLU(), *same(c)]


NETS = {
    "resnet18": lambda: nn.Sequential(nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(), *same(64),
                                      *same(64), *half(128), *half(256), *half(512), nn.AdaptiveAvgPool2d(1),
                                      nn.Flatten(), nn.Linear(512, 10)),
    "mlp": lambda: nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10)),
    "conv16": lambda: nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                                    nn.Linear(3136, 10)),
    "cifar": lambda: nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                                   nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                                   nn.Linear(4096, 256), nn.ReLU(), nn.Linear(256, 10)),
    "resmlp": lambda: nn.Sequential(nn.Flatten(), nn.Linear(784, 100), nn.ReLU(), *block(), *block(), *block(),
                                    nn.Linear(100, 10)),
}
